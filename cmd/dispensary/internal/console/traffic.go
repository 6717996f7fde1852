package console

import (
	"encoding/json"
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
	var answered map[string]json.RawMessage
	_ = json.Unmarshal(r.ResponseBody, &answered) // other responses have no ids
	for _, value := range answered {
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

func (h *Handler) events(query url.Values) any {
	type row struct {
		model.Event
		Sent sent
	}
	type view struct {
		Filter filter
		Events []row
	}
	v, where := view{Filter: filterOf(query)}, h.whereSent()
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
	}
	v := view{Filter: filterOf(query)}
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
		all = append(all, &moment{e.CreatedAt, e.ID, "event", false, func() momentLine {
			return momentLine{e.Type, "created", "events?select=" + e.ID + "#" + e.ID}
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
