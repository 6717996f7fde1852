package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// requestFailed reports whether a request was rejected or got no response.
func requestFailed(r model.Request) bool { return r.Status == 0 || r.Status >= 400 }

// requestID returns the row id of a request.
func requestID(r model.Request) string { return "request-" + strconv.Itoa(r.Seq) }

// requestText returns the searchable text of a request.
func requestText(r model.Request) string {
	return strings.Join([]string{r.Operation, r.Method + " " + r.Path + "?" + r.Query, strconv.Itoa(r.Status), r.ID, r.TokenID, strings.Join(r.Errors, "\n"), string(r.RequestBody), string(r.ResponseBody)}, "\n")
}

// requestRow is a request with its notes.
type requestRow struct {
	model.Request
	ID     string
	Failed bool
	Notes  []string // mistakes of the caller, and faults
	Curl   string
}

// Objects returns the ids in a request's path, and the id of the object in its response.
func (r requestRow) Objects() (ids []string) {
	var responded map[string]json.RawMessage
	_ = json.Unmarshal(r.ResponseBody, &responded) // other responses have no ids
	for _, value := range responded {
		var object struct{ ID string }
		if json.Unmarshal(value, &object) == nil && object.ID != "" {
			ids = append(ids, object.ID)
		}
	}
	asked := strings.Split(strings.TrimPrefix(r.Path, "/api"), "/")
	for i, segment := range strings.Split(r.Route, "/") {
		if strings.HasPrefix(segment, "{") && i < len(asked) {
			if id, err := url.PathUnescape(asked[i]); err == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func (h *Handler) requests(query url.Values) any {
	type view struct {
		Filter   filter
		Requests []requestRow
	}
	v := view{Filter: filterOf(query)}
	for _, r := range filtered(&v.Filter, h.fake.Journal.Requests(), func(r model.Request) listed {
		return listed{ID: requestID(r), Kind: r.Operation, State: strconv.Itoa(r.Status), Failed: requestFailed(r), Text: func() string { return requestText(r) }}
	}) {
		v.Requests = append(v.Requests, requestRow{r, requestID(r), requestFailed(r), requestNotes(r), h.curl(r)})
	}
	return v
}

// requestNotes returns the mistakes of a request and its faults, in words.
func requestNotes(r model.Request) (notes []string) {
	if r.Operation == "" {
		notes = append(notes, "The operation does not exist.")
	}
	notes = append(notes, r.Errors...)
	for _, u := range r.Unknown {
		notes = append(notes, "Unknown parameter "+u.String()+".")
	}
	for _, u := range r.Unread {
		notes = append(notes, "Unknown field "+u.String()+".")
	}
	for _, near := range r.Near {
		notes = append(notes, "This path has "+near+".")
	}
	for _, f := range r.Faults {
		notes = append(notes, "Fault: "+string(f)+".")
	}
	return notes
}

// quotedBody quotes a body for a shell. It returns "" if no body is stored.
func quotedBody(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	return terminal.Quote(string(body))
}

// curl returns a command that repeats a request. The journal stores no tokens, and bodies only
// with --bodies.
func (h *Handler) curl(r model.Request) string {
	address := strings.TrimSuffix(h.fake.Site().BaseURL, "/api") + r.Path
	if r.Query != "" {
		address += "?" + r.Query
	}
	command := "curl"
	if r.Method != "GET" {
		command += " -X " + r.Method + " --json " + or(quotedBody(r.RequestBody), "@body.json")
	}
	if r.TokenID != "" {
		command += ` -H "Authorization: Bearer $TOKEN"`
	}
	return command + " " + terminal.Quote(address)
}

// eventText returns the searchable text of an event.
func eventText(e model.Event) string {
	return strings.Join([]string{e.Type, e.ID, e.ObjectID, string(e.Data)}, "\n")
}

// sent is the delivery status of an event.
type sent struct {
	State, Text string // as in standing
	Failed      bool
	Deliveries  []model.Delivery
}

// whereSent returns the status of each event by id. If an event has several deliveries, the
// worst one determines its status.
func (h *Handler) whereSent() map[string]sent {
	all := map[string]sent{}
	for _, e := range h.fake.Events() {
		if e.NotSent != "" {
			all[e.ID] = sent{State: "failed", Text: "not sent: " + e.NotSent, Failed: true}
		}
	}
	for _, d := range h.fake.Webhooks.Deliveries() {
		s, state := all[d.EventID], deliveryState(d)
		if s.Text == "" || state.Failed || !s.Failed && state.State == "due" {
			s.State, s.Text, s.Failed = state.State, state.Text, state.Failed
		}
		s.Deliveries = append(s.Deliveries, d)
		all[d.EventID] = s
	}
	return all
}

// unsent is the reason why the last events were not sent, with the action that helps.
// Without an operation ID, the action is the form of the deliveries. Without a Label, none helps.
type unsent struct {
	Events                 int
	Reason, Label, ID, Key string
}

// unsent returns the reason if the newest event was not sent, or nil.
func (h *Handler) unsent() *unsent {
	all := h.fake.Events()
	u := &unsent{}
	for _, e := range slices.Backward(all) {
		if u.Reason = cmp.Or(u.Reason, e.NotSent); u.Reason == "" {
			break
		} else if e.NotSent == u.Reason {
			u.Events++
		}
	}
	if u.Events == 0 {
		return nil
	}
	endpoint, registered := h.fake.Webhooks.Endpoint()
	switch {
	case !registered:
		u.Label = "Register an endpoint"
	case endpoint.Disabled:
		u.Label, u.ID = "Enable the endpoint", "webhook.enable"
	case strings.HasPrefix(u.Reason, "no integration of the clinic is active"):
		u.Label, u.ID, u.Key = "Activate the integration", "platform.activate_clinic_key", h.fake.ClinicKey()
	}
	return u
}

func (h *Handler) events(query url.Values) any {
	type row struct {
		model.Event
		Sent sent
	}
	type view struct {
		Filter filter
		Events []row
		Unsent *unsent
	}
	v, where := view{Filter: filterOf(query), Unsent: h.unsent()}, h.whereSent()
	for _, e := range filtered(&v.Filter, h.fake.Events(), func(e model.Event) listed {
		s := where[e.ID]
		return listed{ID: e.ID, Kind: e.Type, State: s.Text, Failed: s.Failed, Text: func() string { return eventText(e) }}
	}) {
		v.Events = append(v.Events, row{e, where[e.ID]})
	}
	return v
}

// story is a link to the timeline of an object.
type story struct{ Base, ID string }

func newStory(f *frame, id string) story { return story{f.Base, id} }

// moment is an entry of the timeline before it is rendered.
type moment struct {
	at     time.Time
	id     string // id of its row
	kind   string // "request", "event" or "delivery"
	failed bool
	line   func() momentLine
	text   func() string // searchable text
}

// momentLine is the text of a line in the timeline.
type momentLine struct{ What, Outcome, Link string }

func (h *Handler) timeline(query url.Values) any {
	type row struct {
		momentLine
		ID, Kind string
		At       time.Time
		Failed   bool
	}
	type view struct {
		Filter  filter
		Moments []row
		Unsent  *unsent
	}
	v := view{Filter: filterOf(query), Unsent: h.unsent()}
	for _, m := range filtered(&v.Filter, h.moments(), func(m *moment) listed {
		state := "ok"
		if m.failed {
			state = "failed"
		}
		return listed{ID: m.id, Kind: m.kind, State: state, Failed: m.failed, Text: m.text}
	}) {
		v.Moments = append(v.Moments, row{m.line(), m.id, m.kind, m.at, m.failed})
	}
	return v
}

// moments returns all entries of the timeline, oldest first.
func (h *Handler) moments() (all []*moment) {
	for _, r := range h.fake.Journal.Requests() {
		id := requestID(r)
		all = append(all, &moment{r.At, id, "request", requestFailed(r), func() momentLine {
			return momentLine{r.Method + " " + r.Path, strconv.Itoa(r.Status), "requests?select=" + id + "#" + id}
		}, func() string { return requestText(r) }})
	}
	about := map[string]string{} // object of each event
	for _, e := range h.fake.Events() {
		about[e.ID] = e.ObjectID
		outcome := "created"
		if e.NotSent != "" {
			outcome = "not sent: " + e.NotSent
		}
		all = append(all, &moment{e.CreatedAt, e.ID, "event", e.NotSent != "", func() momentLine {
			return momentLine{e.Type, outcome, "events?select=" + e.ID + "#" + e.ID}
		}, func() string { return eventText(e) }})
	}
	for _, d := range h.fake.Webhooks.Deliveries() {
		for i, a := range d.Attempts {
			all = append(all, &moment{a.At, d.ID + "-" + strconv.Itoa(i+1), "delivery", a.Err != "", func() momentLine {
				return momentLine{d.EventType + ", attempt " + strconv.Itoa(i+1), or(a.Err, strconv.Itoa(a.Status)), "deliveries?select=" + d.ID + "#" + d.ID}
			}, func() string { return deliveryText(d) + "\n" + about[d.EventID] }})
		}
	}
	slices.SortStableFunc(all, func(a, b *moment) int { return a.at.Compare(b.at) })
	return all
}

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
