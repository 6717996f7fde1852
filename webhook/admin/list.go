package admin

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

const (
	// perPage is the number of rows on a page of a list.
	perPage = 50

	// mostOptions is the largest number of clinics in a select element. If there are more, a
	// text field suggests the clinics with most events.
	mostOptions = 500
)

// listView is a page of events.
type listView struct {
	Filter                 engine.Filter
	State                  string
	Since, Before          string // values of the fields
	Zone                   string // time zone of the fields
	Types, Clinics, Causes []option
	Many                   bool // there are too many clinics for a select element
	Shortcuts              []shortcut
	Narrowed               bool
	Total                  int
	Oldest                 time.Time
	Events                 []*eventView
	From                   string       // query of this page
	Order                  string       // "newest" or "oldest", empty for the default of the state
	Newest                 bool         // newest first
	Turned                 template.URL // link to the other order
	First                  template.URL // link to the first page, empty on it
	Previous               template.URL // link to the previous page, empty on the first
	Next                   template.URL // link to the next page, empty on the last
	Bulk                   []bulkLink
}

// bulkLink is a link to the dry run of an action for all events of a list.
type bulkLink struct {
	action
	Link template.URL
}

// list shows events.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	now := h.now()
	query := r.URL.Query()
	f, err := filterOf(query, now)
	p, badPage := pageOf(query)
	if errors.Join(err, badPage) != nil {
		h.reject(w, http.StatusBadRequest, badLink, 1)
		return
	}
	v := listView{Filter: f, State: query.Get("state"), Order: query.Get("order"), Newest: p.newest, Zone: now.Format("MST"), Since: field(f.GivenUpFrom, now), Before: field(f.GivenUpBefore, now)}
	listed, err := p.list(r.Context(), h.config.Engine, f)
	if err == nil {
		err = h.countList(r, &v)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	v.setPages(listed, p, now)
	v.Shortcuts = shortcuts("events", query, f)
	for _, a := range actions {
		if v.Total > 0 && (f.States == nil || slices.Contains(f.States, a.states[0])) {
			v.Bulk = append(v.Bulk, bulkLink{a, bulkAddress(a.Name, f, v.From)})
		}
	}
	title, path := "Events", "events"
	switch v.State {
	case "dead":
		title, path = "Dead letters", pathOf(engine.StateDead)
	case "waiting":
		title, path = "Waiting events", pathOf(engine.StateWaiting)
	}
	h.show(w, http.StatusOK, "list", frame{Title: title, Path: path, Live: true, ReadOnly: h.config.ReadOnly(r), View: v, Did: h.outcomes.Find(query.Get("did"))})
}

// countList counts the events of the list. Their types, clinics and reasons become the choices
// of the filter.
func (h *Handler) countList(r *http.Request, v *listView) error {
	counts, err := h.config.Engine.Count(r.Context(), v.Filter, 0)
	v.Total, v.Oldest = counts.Total, counts.Oldest
	v.Types = optionsOf(counts.Types, v.Filter.Type, same)
	v.Clinics = optionsOf(counts.Clinics, v.Filter.ClinicID, same)
	if v.Many = len(v.Clinics) > mostOptions; v.Many {
		slices.SortStableFunc(v.Clinics, func(a, b option) int { return cmp.Compare(b.Count, a.Count) })
		v.Clinics = v.Clinics[:mostOptions]
	}
	v.Causes = optionsOf(counts.Causes, v.Filter.Reason, func(c engine.Cause) int { return c.Events })
	narrow := queryOf(v.Filter)
	narrow.Del("state")
	v.Narrowed = len(narrow) > 0
	return err
}

// setPages sets the rows of a page, and the links to other pages.
func (v *listView) setPages(listed []engine.Event, p page, now time.Time) {
	link := func(name, value string) string {
		query := queryOf(v.Filter)
		for name, value := range map[string]string{"order": v.Order, name: value} {
			if value != "" {
				query.Set(name, value)
			}
		}
		return query.Encode()
	}
	to := func(name, value string) template.URL { return template.URL("events?" + link(name, value)) }
	v.From = link(p.name, p.at.String())
	for n := range listed {
		v.Events = append(v.Events, viewOf(&listed[n], v.From, now))
	}
	v.Turned = to("order", map[bool]string{true: "oldest", false: "newest"}[v.Newest])
	if v.First = to("", ""); p.at.IsZero() {
		v.First = ""
	} else if len(listed) > 0 {
		v.Previous = to("back", listed[0].Position.String())
	}
	if p.more {
		v.Next = to("after", listed[len(listed)-1].Position.String())
	}
}

// page is a page of a list in its order.
type page struct {
	newest bool   // newest first
	name   string // in links: the page begins "after" a position or ends before it, "back"
	at     engine.Position
	more   bool // another page follows, set by list
}

// pageOf reads a page from a link. By default, the newest event is first. Of waiting events, the
// event due next is first.
func pageOf(query url.Values) (p page, err error) {
	if p.name = "after"; query.Has("back") {
		p.name = "back"
	}
	switch order := query.Get("order"); order {
	case "":
		p.newest = query.Get("state") != "waiting"
	case "newest", "oldest":
		p.newest = order == "newest"
	default:
		return p, errLink
	}
	return p, p.at.UnmarshalText([]byte(query.Get(p.name)))
}

// list returns the events of the page. If fewer events precede the position than a page has, it
// returns the first page.
func (p *page) list(ctx context.Context, of engine.Engine, f engine.Filter) ([]engine.Event, error) {
	back := p.name == "back"
	listed, err := of.List(ctx, f, engine.Page{After: p.at, Descending: p.newest != back, Limit: perPage + 1})
	p.more = len(listed) > perPage
	listed = listed[:min(perPage, len(listed))]
	switch {
	case err != nil || !back:
	case p.more:
		slices.Reverse(listed)
	default:
		p.at, p.name = engine.Position{}, "after"
		return p.list(ctx, of, f)
	}
	return listed, err
}

// field formats a time for a form field.
func field(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(now.Location()).Format(localTime)
}

// eventView is an event on a page.
type eventView struct {
	*engine.Event
	Link template.URL
	From string // query of its list, for forms
	now  time.Time
}

func viewOf(e *engine.Event, from string, now time.Time) *eventView {
	query := url.Values{"key": {e.Key.String()}}
	if from != "" {
		query.Set("from", from)
	}
	return &eventView{e, address("event", query), from, now}
}

// Dead reports whether the event is a dead letter.
func (e *eventView) Dead() bool { return e.State == engine.StateDead }

// Stand returns the state and its time.
func (e *eventView) Stand() template.HTML {
	switch e.State {
	case engine.StateDead:
		return `<span class="state failed">dead</span> ` + webpage.AgoTime(e.Position.At, e.now)
	case engine.StateRunning:
		return `<span class="state due">being handled</span>`
	}
	return `<span class="state due">due</span> ` + webpage.AgoTime(e.Position.At, e.now)
}

// Cause returns the short form of the reason.
func (e *eventView) Cause() string { return cmp.Or(shortReason(e.Reason), "–") }

// Change returns the action of the event's button, or nil.
func (e *eventView) Change() *action {
	switch {
	case e.Dead():
		return &actions[0]
	case e.State == engine.StateWaiting && e.Position.At.After(e.now):
		return &actions[1]
	}
	return nil
}

// detailView is the page of one event.
type detailView struct {
	*eventView
	Key     string
	Others  template.URL // events of the same clinic
	List    template.URL // back
	CanOpen bool
	Opened  bool
	Body    string
	Error   string
	Lost    bool // the body cannot be decrypted
	Discard template.URL
}

// event shows an event without its body.
func (h *Handler) event(w http.ResponseWriter, r *http.Request) {
	if v, ok := h.load(w, r); ok {
		h.showEvent(w, r, v)
	}
}

// load returns the event of a link. If the event is not available, it shows the reason and
// returns false.
func (h *Handler) load(w http.ResponseWriter, r *http.Request) (v detailView, ok bool) {
	query, now := r.URL.Query(), h.now()
	f, err := filterOf(query, now)
	if err != nil || len(f.Keys) != 1 {
		h.reject(w, http.StatusBadRequest, badLink, 1)
		return v, false
	}
	one := engine.Filter{Keys: f.Keys}
	stored, err := h.config.Engine.List(r.Context(), one, engine.Page{Limit: 1})
	if err != nil {
		h.fail(w, err)
		return v, false
	}
	if len(stored) == 0 {
		h.notStored(w, r, f.Keys[0])
		return v, false
	}
	from := query.Get("from")
	v = detailView{
		eventView: viewOf(&stored[0], from, now), Key: f.Keys[0].String(), CanOpen: h.config.Observer.BodyOpened != nil,
		List: back(query, ""), Discard: bulkAddress("discard", one, from),
	}
	v.Others = address("events", queryOf(engine.Filter{ClinicID: v.ClinicID}))
	return v, true
}

// notStored shows whether an event that is not stored was handled or discarded.
func (h *Handler) notStored(w http.ResponseWriter, r *http.Request, key webhook.Key) {
	finished, err := h.config.Engine.Finished(r.Context(), key.EventID)
	if err != nil {
		h.fail(w, err)
		return
	}
	status := http.StatusOK
	if len(finished) == 0 {
		status = http.StatusNotFound
	}
	h.showEnded(w, r, status, key.EventID, finished)
}

// showEnded shows the end of an event that is not stored. finished is nil if it is unknown.
func (h *Handler) showEnded(w http.ResponseWriter, r *http.Request, status int, id string, finished []engine.Finished) {
	query := r.URL.Query()
	h.show(w, status, "ended", frame{Title: "Event", Path: noPage, Did: h.outcomes.Find(query.Get("did")), View: finishedView{id, finished, back(query, "")}})
}

// finishedView is the page of an event that is not stored.
type finishedView struct {
	ID       string
	Finished []engine.Finished
	List     template.URL
}

// find redirects to the page of the event with an ID or a part of an ID, to the list of several
// events, or to the list of a clinic. If there is none, it shows whether the event was handled or
// discarded. It looks up an exact event ID before it searches, because a search reads all events.
func (h *Handler) find(w http.ResponseWriter, r *http.Request) {
	id := trimmed(r.URL.Query(), "id")
	if id == "" {
		redirect(w, "events")
		return
	}
	for _, f := range []engine.Filter{{EventID: id}, {ID: id}, {ClinicID: id}} {
		found, err := h.config.Engine.List(r.Context(), f, engine.Page{Limit: 2})
		var finished []engine.Finished
		if err == nil && len(found) == 0 && f.EventID != "" {
			finished, err = h.config.Engine.Finished(r.Context(), id)
		}
		switch {
		case err != nil:
			h.fail(w, err)
		case len(finished) > 0:
			h.showEnded(w, r, http.StatusOK, id, finished)
		case len(found) == 1 && f.ClinicID == "":
			redirect(w, viewOf(&found[0], "", h.now()).Link)
		case len(found) > 0: // events with one ID are found by it as a part, too
			redirect(w, address("events", queryOf(engine.Filter{ID: f.EventID + f.ID, ClinicID: f.ClinicID})))
		default:
			continue
		}
		return
	}
	h.showEnded(w, r, http.StatusOK, id, nil)
}

func (h *Handler) showEvent(w http.ResponseWriter, r *http.Request, v detailView) {
	h.show(w, http.StatusOK, "event", frame{Title: webpage.Plain(string(v.Type)), Path: pathOf(v.State), ReadOnly: h.config.ReadOnly(r), Did: h.outcomes.Find(r.URL.Query().Get("did")), View: v})
}

// openBody shows an event with its body after the access was recorded. Its URL is the URL of
// the event's page, so a reload or a shared link hides the body.
func (h *Handler) openBody(w http.ResponseWriter, r *http.Request) {
	v, ok := h.load(w, r)
	if !ok {
		return
	}
	key := v.Event.Key
	if h.config.Observer.BodyOpened == nil || h.config.Observer.BodyOpened(r, key) != nil {
		h.reject(w, http.StatusForbidden, "The body stays closed, because the access could not be recorded.", 1)
		return
	}
	opened, err := h.config.Engine.Open(r.Context(), key)
	switch {
	case errors.Is(err, engine.ErrNotStored):
		h.notStored(w, r, key)
		return
	case errors.Is(err, webhook.ErrBodyLost):
		v.Lost = true
	case err != nil:
		h.fail(w, err)
		return
	default:
		v.Opened, v.Body = true, webpage.Pretty(opened.Body)
		if opened.Err != nil {
			v.Error = webpage.Plain(opened.Err.Error())
		}
	}
	h.showEvent(w, r, v)
}
