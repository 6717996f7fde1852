package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// perPage is how many rows a page of a list shows.
const perPage = 50

// filter says which rows of a list a page shows. It is part of the page's address, so
// that it works without scripts and survives a reload.
type filter struct {
	Text  string // what a row has to contain, whatever its case
	State string // which state it has to be in; any where empty
	Page  int    // counted from 1

	// filtered fills these in.
	From, To, Found, All int
}

func filterOf(query url.Values) filter {
	n, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		n = 1
	}
	return filter{Text: strings.TrimSpace(query.Get("q")), State: query.Get("state"), Page: max(n, 1)}
}

// filterQuery is the filter of a page's address.
func filterQuery(query url.Values) string {
	s := filterOf(query)
	return s.Query(s.Page)
}

// Query is the filter in an address, at a page.
func (s filter) Query(page int) string {
	query := url.Values{}
	for name, value := range map[string]string{"q": s.Text, "state": s.State} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// Newer is the address of the page before this one, empty where there is none.
func (s filter) Newer() string {
	if s.Page == 1 {
		return ""
	}
	return or(s.Query(s.Page-1), "?")
}

// Older is the address of the page after this one, empty where there is none.
func (s filter) Older() string {
	if s.To == s.Found {
		return ""
	}
	return s.Query(s.Page + 1)
}

// First is the number of the first row that is shown, counted from 1.
func (s filter) First() int { return min(s.From+1, s.Found) }

// Narrows reports that rows are left out.
func (s filter) Narrows() bool { return s.Text != "" || s.State != "" }

// filtered are the rows that a page shows, the newest first.
func filtered[T any](s *filter, rows []T, of func(T) (state, text string)) []T {
	wanted := strings.ToLower(s.Text)
	var found []T
	for _, row := range slices.Backward(rows) {
		if state, text := of(row); (s.State == "" || s.State == state) && strings.Contains(strings.ToLower(text), wanted) {
			found = append(found, row)
		}
	}
	s.All, s.Found = len(rows), len(found)
	s.Page = min(s.Page, max(1, (len(found)+perPage-1)/perPage))
	s.From = min((s.Page-1)*perPage, len(found))
	s.To = min(s.From+perPage, len(found))
	return found[s.From:s.To]
}

// filterForm is the form that filters a list.
type filterForm struct {
	Filter filter
	Which  string   // what the states are of
	States []string // that can be chosen
}

func newFilterForm(s filter, which string, states []string) filterForm {
	return filterForm{s, which, states}
}
