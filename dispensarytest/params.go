package dispensarytest

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPageSize caps page[size]: an assumption; the API does not document it.
const maxPageSize = 100

// params are a request's query parameters.
type params url.Values

func parseParams(raw string) (params, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("The query string is malformed")
	}
	return params(values), nil
}

// get returns a parameter's last value, as the platform reads it.
func (p params) get(name string) string {
	values := p[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// unknown lists the parameters an operation does not know, with the nearest
// one it does.
func (p params) unknown(known []string) []Unread {
	var unknown []Unread
	for name := range p {
		if !slices.Contains(known, name) {
			unknown = append(unknown, Unread{Name: name, Near: nearest(name, known)})
		}
	}
	slices.SortFunc(unknown, func(a, b Unread) int { return cmp.Compare(a.Name, b.Name) })
	return unknown
}

// pageRequest is which page a list was asked for.
type pageRequest struct{ number, size int }

func (p params) page(reads *readings) (pageRequest, error) {
	number, err := p.count("page[number]", 1)
	if err != nil {
		return pageRequest{}, err
	}
	size, err := p.count("page[size]", reads.pageSize)
	if err != nil {
		return pageRequest{}, err
	}
	if size > maxPageSize && reads.refuseOversized {
		return pageRequest{}, invalid("page[size] must not be above 100")
	}
	return pageRequest{number: number, size: min(size, maxPageSize)}, nil
}

// count reads a positive number. That anything else is refused, and with 422, is
// an assumption; so it is of the other parameters with a form of their own.
func (p params) count(name string, fallback int) (int, error) {
	text := p.get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000_000 {
		return 0, invalid(name + " must be a whole number above 0")
	}
	return n, nil
}

// oneOf reads a parameter that has a fixed set of values; "" when it was not
// sent.
func (p params) oneOf(name string, allowed ...string) (string, error) {
	value := p.get(name)
	if value == "" || slices.Contains(allowed, value) {
		return value, nil
	}
	return "", invalid(name + " must be one of " + strings.Join(allowed, ", "))
}

// order reads sort_by and order_by.
func (p params) order(fields ...string) (field string, descending bool, err error) {
	if field, err = p.oneOf("sort_by", fields...); err != nil {
		return "", false, err
	}
	direction, err := p.oneOf("order_by", "ASC", "DESC")
	return field, direction == "DESC", err
}

// days is a date filter. A plain day is from the API; "<day", ">day" and
// "day..day" are an assumption but for the ">" that one of its examples shows.
type days struct {
	from, to int // inclusive, as yyyymmdd; 0 is open
	set      bool
}

func (p params) days(name string) (days, error) {
	text := p.get(name)
	if text == "" {
		return days{}, nil
	}
	from, to, isRange := strings.Cut(text, "..")
	switch {
	case isRange:
	case text[0] == '<':
		from, to = "", dayAfter(text[1:], -1)
	case text[0] == '>':
		from, to = dayAfter(text[1:], 1), ""
	default:
		to = from
	}
	open := text[0] == '<' || text[0] == '>'
	if !(validDay(from) || open && from == "") || !(validDay(to) || open && to == "") || from == to && from == "" {
		return days{}, invalid(name + " must be a date (yyyy-mm-dd)")
	}
	return days{from: dayNumber(from), to: dayNumber(to), set: true}, nil
}

// holds compares calendar days in the zone the timestamp is written in.
func (d days) holds(t time.Time) bool { return d.place(t) == 0 }

// place says where a time is: below 0 before the days, above 0 after them. It runs for
// each row that a search of an index meets, and so compares numbers.
func (d days) place(t time.Time) int {
	if !d.set {
		return 0
	}
	year, month, day := t.Date()
	switch number := year*10_000 + int(month)*100 + day; {
	case d.from != 0 && number < d.from:
		return -1
	case d.to != 0 && number > d.to:
		return 1
	}
	return 0
}

// dayNumber is a valid day as yyyymmdd; 0 for none.
func dayNumber(day string) int {
	n, _ := strconv.Atoi(strings.ReplaceAll(day, "-", ""))
	return n
}

func validDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// dayAfter moves a day; an invalid one comes back as it is, to be refused.
func dayAfter(s string, n int) string {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return "invalid"
	}
	return t.AddDate(0, 0, n).Format(time.DateOnly)
}
