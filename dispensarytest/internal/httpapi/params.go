package httpapi

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// maxPageSize limits page[size]: an assumption, because the API does not document it.
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

// get returns the last value of a parameter, as the platform does.
func (p params) get(name string) string {
	values := p[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// unknown returns the parameters that the operation does not know, each with the closest known
// one.
func (p params) unknown(known []string) []model.Unread {
	var unknown []model.Unread
	for name := range p {
		if !slices.Contains(known, name) {
			unknown = append(unknown, model.Unread{Name: name, Near: closestmatch.To(name, known)})
		}
	}
	slices.SortFunc(unknown, func(a, b model.Unread) int { return cmp.Compare(a.Name, b.Name) })
	return unknown
}

func (p params) page(reads *rules.Set) (pageRequest, error) {
	number, err := p.count("page[number]", 1)
	if err != nil {
		return pageRequest{}, err
	}
	size, err := p.count("page[size]", reads.PageSize)
	if err != nil {
		return pageRequest{}, err
	}
	if size > maxPageSize && reads.RefuseOversized {
		return pageRequest{}, invalid("page[size] must not be above 100")
	}
	return pageRequest{number: number, size: min(size, maxPageSize)}, nil
}

// count reads a positive number. Assumption: other values are rejected with 422, and so are
// malformed values of other parameters.
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

// oneOf reads a parameter with a fixed set of values. It returns "" if the parameter is
// absent.
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

func (p params) days(name string) (store.Days, error) {
	text := p.get(name)
	if text == "" {
		return store.Days{}, nil
	}
	from, to, isRange := strings.Cut(text, "..")
	switch {
	case isRange:
	case text[0] == '<':
		from, to = "", store.DayAfter(text[1:], -1)
	case text[0] == '>':
		from, to = store.DayAfter(text[1:], 1), ""
	default:
		to = from
	}
	open := text[0] == '<' || text[0] == '>'
	if !(store.ValidDay(from) || open && from == "") || !(store.ValidDay(to) || open && to == "") || from == to && from == "" {
		return store.Days{}, invalid(name + " must be a date (yyyy-mm-dd)")
	}
	return store.Days{From: store.DayNumber(from), To: store.DayNumber(to), Set: true}, nil
}

// pageMeta is the meta object of a list. API section: "Pagination".
type pageMeta struct {
	CurrentPage int  `json:"current_page"`
	NextPage    *int `json:"next_page"`
	PrevPage    *int `json:"prev_page"`
	TotalPages  int  `json:"total_pages"`
	TotalCount  int  `json:"total_count"`
}

// pageRequest is the requested page of a list.
type pageRequest struct{ number, size int }

// cut returns the rows of a page and its meta object. Assumption: a page beyond the last is
// empty and has no neighbors.
func (p pageRequest) cut(total int) (from, to int, meta *pageMeta) {
	pages := (total + p.size - 1) / p.size
	meta = &pageMeta{CurrentPage: p.number, TotalPages: pages, TotalCount: total}
	if p.number > pages {
		return 0, 0, meta
	}
	if p.number > 1 {
		meta.PrevPage = new(p.number - 1)
	}
	if p.number < pages {
		meta.NextPage = new(p.number + 1)
	}
	from = (p.number - 1) * p.size
	return from, min(from+p.size, total), meta
}

// sortRows sorts by a key, and keeps the order of creation among equal keys in both
// directions.
func sortRows[T any, K cmp.Ordered](rows []*T, descending bool, key func(*T) K) {
	slices.SortStableFunc(rows, func(a, b *T) int {
		if descending {
			return cmp.Compare(key(b), key(a))
		}
		return cmp.Compare(key(a), key(b))
	})
}
