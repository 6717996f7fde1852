package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// perPage is how many rows a page of a list shows.
const perPage = 50

// filter says which rows of a list a page shows, and which of them it shows in full.
// It is part of the page's address, so that it works without scripts and survives a
// reload.
type filter struct {
	Text     string // what a row has to contain, whatever its case
	Kind     string // which type it has to be of; any where empty
	State    string // which state it has to be in; any where empty
	Failed   bool   // whether only what went wrong is shown
	Selected string // the row whose details are shown; its page is shown then
	Page     int    // counted from 1

	// filtered fills these in.
	Kinds, States        []string // that can be chosen
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

// filterQuery is the filter of a page's address, empty where there is none.
func filterQuery(query url.Values) string {
	s := filterOf(query)
	return strings.TrimSuffix(s.address(s.Page, s.Selected), "?")
}

// address is the filter in an address: "?" at least.
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

// Select is the address of a row's details, and from them that of the list alone.
func (s filter) Select(id string) string {
	if id == s.Selected {
		return s.address(s.Page, "") + "#" + id
	}
	return s.address(1, id) + "#" + id
}

// Everything is the address of all rows.
func (s filter) Everything() string {
	if len(s.Kinds) == 0 {
		return filter{Kind: s.Kind}.address(1, "")
	}
	return "?"
}

// Newer is the address of the page before this one, empty where there is none.
func (s filter) Newer() string {
	if s.Page == 1 {
		return ""
	}
	return s.address(s.Page-1, "")
}

// Older is the address of the page after this one, empty where there is none.
func (s filter) Older() string {
	if s.To == s.Found {
		return ""
	}
	return s.address(s.Page+1, "")
}

// First is the number of the first row that is shown, counted from 1.
func (s filter) First() int { return min(s.From+1, s.Found) }

// Narrows reports that rows are left out.
func (s filter) Narrows() bool {
	return s.Text != "" || len(s.Kinds) > 0 && s.Kind != "" || s.State != "" || s.Failed
}

// listed is what a filter looks at in a row.
type listed struct {
	ID, Kind, State string
	Failed          bool
	Text            func() string // called where a text is looked for
}

// keeps reports whether a row is shown. The kind of a list that has but one is not its
// rows'.
func (s filter) keeps(row listed, lowered string) bool {
	return (s.Kind == "" || row.Kind == "" || s.Kind == row.Kind) && (s.State == "" || s.State == row.State) && (row.Failed || !s.Failed) &&
		(lowered == "" || strings.Contains(strings.ToLower(row.Text()), lowered))
}

// filtered are the rows that a page shows, the newest first.
func filtered[T any](s *filter, rows []T, of func(T) listed) []T {
	lowered := strings.ToLower(s.Text)
	kinds, states := map[string]bool{}, map[string]bool{}
	var found []int // rows are large, and few are shown
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

// choosable are the words that rows have, and the one that is chosen though no row has
// it. Rows without any are not told apart.
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
