package httpapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
)

// maxPageSize limits page[size]: an assumption, because the API does not document it.
const maxPageSize = 100

// query contains a request's query parameters.
type query struct {
	values url.Values
	wrong  error // of the first invalid parameter
}

func parseQuery(raw string) (query, error) {
	if raw == "" {
		return query{}, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, badRequest("The query string is malformed")
	}
	return query{values: values}, nil
}

// get returns the last value of a parameter, as the platform does.
func (q *query) get(name string) string {
	values := q.values[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (q *query) page(behaviors *rules.Set) (pageRequest, error) {
	number, err := q.count("page[number]", 1)
	if err != nil {
		return pageRequest{}, err
	}
	size, err := q.count("page[size]", behaviors.PageSize())
	if err != nil {
		return pageRequest{}, err
	}
	if size > maxPageSize && behaviors.Is(behavior.OversizedPageRejected) {
		return pageRequest{}, invalid("page[size] must not be above 100")
	}
	return pageRequest{number: number, size: min(size, maxPageSize)}, nil
}

// count reads a positive number. Assumption: other values are rejected with 422, and so are
// malformed values of other parameters.
func (q *query) count(name string, fallback int) (int, error) {
	text := q.get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000_000 {
		return 0, invalid(name + " must be a whole number above 0")
	}
	return n, nil
}

// reject makes the response of a GET request an error, whatever its handler returns. Only the
// first call has an effect.
func (q *query) reject(message string) {
	if q.wrong == nil {
		q.wrong = invalid(message)
	}
}

// oneOf reads a parameter with a fixed set of values. It returns "" if the parameter is
// absent.
func (q *query) oneOf(name string, allowed ...string) string {
	value := q.get(name)
	if value != "" && !slices.Contains(allowed, value) {
		q.reject(name + " must be one of " + strings.Join(allowed, ", "))
	}
	return value
}

func (q *query) days(name string) store.Days {
	text := q.get(name)
	if text == "" {
		return store.Days{}
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
		q.reject(name + " must be a date (yyyy-mm-dd)")
	}
	return store.Days{From: from, To: to, Set: true}
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
