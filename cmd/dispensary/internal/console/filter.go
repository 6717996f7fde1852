package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// perPage is the number of rows per page of a list.
const perPage = 50

// filter selects the rows of a page and the row with details. It is part of the URL, so it
// works without scripts and survives a reload.
type filter struct {
	Text     string // text to search for, ignoring case
	Kind     string // type of the rows, empty for all
	State    string // state of the rows, empty for all
	Failed   bool   // show only failed rows
	Selected string // id of the row with details, which also selects the page
	Page     int    // from 1

	// Set by filtered.
	Kinds, States        []string // options of the filter form
	From, To, Found, All int
}

func filterOf(query url.Values) filter {
	n, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		n = 1
	}
	return filter{
		Text: strings.TrimSpace(query.Get("q")), Kind: query.Get("kind"), State: query.Get("state"),
		Failed: query.Get("failed") != "", Selected: query.Get("select"), Page: max(n, 1),
	}
}

// filterQuery returns the query string of a page's filter, or "" without a filter.
func filterQuery(query url.Values) string {
	s := filterOf(query)
	return strings.TrimSuffix(s.address(s.Page, s.Selected), "?")
}

// address returns the query string of the filter, at least "?".
func (s filter) address(page int, selected string) string {
	query := url.Values{}
	for name, value := range map[string]string{"q": s.Text, "kind": s.Kind, "state": s.State, "select": selected} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if s.Failed {
		query.Set("failed", "true")
	}
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	return "?" + query.Encode()
}

// Select returns the URL of a row's details. If they are open, it returns the URL of the list.
func (s filter) Select(id string) string {
	if id == s.Selected {
		return s.address(s.Page, "") + "#" + id
	}
	return s.address(1, id) + "#" + id
}

// Everything returns the URL of all rows.
func (s filter) Everything() string {
	if len(s.Kinds) == 0 {
		return filter{Kind: s.Kind}.address(1, "")
	}
	return "?"
}

// Newer returns the URL of the previous page, or "" if there is none.
func (s filter) Newer() string {
	if s.Page == 1 {
		return ""
	}
	return s.address(s.Page-1, "")
}

// Older returns the URL of the next page, or "" if there is none.
func (s filter) Older() string {
	if s.To == s.Found {
		return ""
	}
	return s.address(s.Page+1, "")
}

// First returns the number of the first row on the page, from 1.
func (s filter) First() int { return min(s.From+1, s.Found) }

// Narrows reports whether the filter excludes rows.
func (s filter) Narrows() bool {
	return s.Text != "" || len(s.Kinds) > 0 && s.Kind != "" || s.State != "" || s.Failed
}

// listed contains the filter's view of a row.
type listed struct {
	ID, Kind, State string
	Failed          bool
	Text            func() string // called only to search for a text
}

// keeps reports whether a row matches. A row without a kind matches any kind, because all rows
// of its list have the same kind.
func (s filter) keeps(row listed, lowered string) bool {
	return (s.Kind == "" || row.Kind == "" || s.Kind == row.Kind) && (s.State == "" || s.State == row.State) && (row.Failed || !s.Failed) &&
		(lowered == "" || strings.Contains(strings.ToLower(row.Text()), lowered))
}

// filtered returns the rows of a page, newest first.
func filtered[T any](s *filter, rows []T, of func(T) listed) []T {
	lowered := strings.ToLower(s.Text)
	kinds, states := map[string]bool{}, map[string]bool{}
	var found []int // indexes, because rows are large and few are shown
	for i, row := range slices.Backward(rows) {
		seen := of(row)
		kinds[seen.Kind], states[seen.State] = true, true
		if !s.keeps(seen, lowered) {
			continue
		}
		if found = append(found, i); s.Selected == seen.ID {
			s.Page = (len(found)-1)/perPage + 1
		}
	}
	s.Kinds, s.States = choosable(kinds, s.Kind), choosable(states, s.State)
	s.All, s.Found = len(rows), len(found)
	s.Page = min(s.Page, max(1, (len(found)+perPage-1)/perPage))
	s.From = min((s.Page-1)*perPage, len(found))
	s.To = min(s.From+perPage, len(found))
	var shown []T
	for _, i := range found[s.From:s.To] {
		shown = append(shown, rows[i])
	}
	return shown
}

// choosable returns the sorted words for a filter option, including the chosen one. It returns
// nil if no row has a word.
func choosable(words map[string]bool, chosen string) []string {
	delete(words, "")
	if len(words) == 0 {
		return nil
	}
	if chosen != "" {
		words[chosen] = true
	}
	return slices.Sorted(maps.Keys(words))
}
