package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// changeTime is the longest time for which one request changes events. The next request
// continues.
const changeTime = 5 * time.Second

// action is a change of events.
type action struct {
	Name   Action // in links
	Verb   string
	Events string // singular name of its events
	Done   string
	Gone   string // message if a single event cannot be changed
	Text   string
	states []engine.State
	change func(engine.Engine, context.Context, engine.Filter) (int, error)
}

// Sum returns the number of events of the dry run.
func (v bulkView) Sum() int { return v.Count + v.Total }

// Destroys reports whether the change cannot be undone.
func (a action) Destroys() bool { return a.Name == ActionDiscard }

var actions = []action{
	{
		ActionReplay, "Replay", "dead letter", "replayed", "The event is no longer a dead letter.",
		"Each is handled again, with the full number of attempts.", states["dead"], engine.Engine.Replay,
	},
	{
		ActionHandleNow, "Handle now", "waiting event", "made due", "The event does not wait for a retry.",
		"Each becomes due at once if it waits for a retry. It keeps its number of attempts.", []engine.State{engine.StateWaiting}, engine.Engine.HandleNow,
	},
	{
		ActionDiscard, "Discard", "dead letter", "discarded", "The event is no longer a dead letter.",
		"Each is permanently deleted with its body, and ignored if the platform sends it again.", states["dead"], engine.Engine.Discard,
	},
}

func actionOf(name string) (a action, ok bool) {
	at := slices.IndexFunc(actions, func(a action) bool { return string(a.Name) == name })
	if at < 0 {
		return a, false
	}
	return actions[at], true
}

// message returns a message with the number of changes.
func (a action) message(n int) string {
	if n == 1 {
		return "1 event was " + a.Done + "."
	}
	return number(n) + " events were " + a.Done + "."
}

// outcome is the number of events that forms have changed.
type outcome struct {
	action
	Count int
}

// Message returns the message about a form for a single event.
func (o outcome) Message() string {
	if o.Count == 0 {
		return o.Gone
	}
	return o.message(o.Count)
}

// bulk is a change requested by a link or a form of this page.
type bulk struct {
	action
	filter engine.Filter
	most   int      // 0 for all events
	from   string   // query of the list that it started from
	did    string   // name of before
	before *outcome // of earlier requests, or nil
}

// bulkOf reads a change from a query. If the query is invalid, it shows an error and returns
// false.
func (h *Handler) bulkOf(w http.ResponseWriter, query url.Values) (b bulk, ok bool) {
	for _, a := range actions { // the button of an event
		if key := query.Get(string(a.Name)); key != "" {
			query.Set("action", string(a.Name))
			query.Set("key", key)
		}
	}
	a, known := actionOf(query.Get("action"))
	f, err := filterOf(query, h.now())
	if !known || err != nil {
		h.reject(w, http.StatusBadRequest, badLink, 1)
		return b, false
	}
	f.States = a.states
	b = bulk{action: a, filter: f, from: query.Get("from"), did: query.Get("did"), before: h.outcomes.Find(query.Get("did"))}
	if n, err := strconv.Atoi(query.Get("most")); err == nil && n > 0 {
		b.most = n
	}
	if b.before != nil && b.before.Name != a.Name {
		b.did, b.before = "", nil
	}
	return b, true
}

// query returns the query of a link or a form for the same events.
func (b bulk) query() url.Values {
	query := queryOf(b.filter)
	query.Del("state")
	query.Set("action", string(b.Name))
	if b.most > 0 {
		query.Set("most", strconv.Itoa(b.most))
	}
	if b.from != "" {
		query.Set("from", b.from)
	}
	return query
}

// bulkView is the page of a dry run and of its progress.
type bulkView struct {
	action
	Begun     bool
	Count     int  // changed events
	Total     int  // events to change
	More      int  // more matching events, beyond Total
	Continue  bool // the script sends the form again
	Again     bool // Total counts the events that match now, not those of the dry run
	Most      int
	ByKey     bool // the filter has Keys
	By        []breakdown
	Form      []formField // filter, action and number
	Limit     []formField // filter without its end, for a new count
	Shortcuts []shortcut
	Back      template.URL
}

type formField struct{ Name, Value string }

func fieldsOf(query url.Values) (fields []formField) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			fields = append(fields, formField{name, value})
		}
	}
	return fields
}

// dryRun shows the events to change, or the remaining ones.
func (h *Handler) dryRun(w http.ResponseWriter, r *http.Request) {
	b, ok := h.bulkOf(w, r.URL.Query())
	if !ok {
		return
	}
	v := bulkView{action: b.action, Begun: b.before != nil, Most: b.most, ByKey: b.filter.Keys != nil, Back: back(r.URL.Query(), "")}
	if v.Begun {
		v.Count = b.before.Count
	}
	open := b
	open.filter.Until = engine.Position{}
	v.Limit = fieldsOf(open.query())
	if err := h.count(r.Context(), &b, &v); err != nil {
		h.fail(w, err)
		return
	}
	if b.from == "" {
		open.filter.Keys = nil
		v.Back = address("events", queryOf(open.filter))
	}
	v.Continue = v.Begun && !v.Again
	form := b.query()
	if v.Begun {
		form.Set("did", b.did)
	}
	v.Form = fieldsOf(form)
	if !v.Begun && !v.ByKey && b.Name != ActionHandleNow {
		v.Shortcuts = shortcuts("bulk", r.URL.Query(), open.filter)
	}
	h.show(w, http.StatusOK, "bulk", frame{Title: b.Verb + ": " + b.Events + "s", Path: pathOf(b.states[0]), View: v})
}

// count counts the events to change and finds the last of them. Once all events of a dry run
// are changed, it counts the events that match now, so that one click continues with them. It
// skips this after [ActionHandleNow], because its events match until a worker is free.
func (h *Handler) count(ctx context.Context, b *bulk, v *bulkView) error {
	if v.Again = v.Begun && b.filter.Until.IsZero(); v.Again && b.Name == ActionHandleNow {
		v.Again = false
		return nil
	}
	counts, err := h.config.Engine.Count(ctx, b.filter, b.most)
	if err == nil && counts.Total == 0 && v.Begun && !v.Again { // the last request changed all events, but used up its time
		v.Again, b.filter.Until = true, engine.Position{}
		counts, err = h.config.Engine.Count(ctx, b.filter, b.most)
	}
	if err != nil {
		return err
	}
	if v.Total, v.By = counts.Total, breakdowns(counts); v.ByKey || !b.filter.Until.IsZero() {
		return nil
	}
	all := counts
	if counts.Total == b.most {
		all, err = h.config.Engine.Count(ctx, b.filter, 0)
	}
	v.More = max(0, all.Total-counts.Total)
	b.filter.Until = counts.Until
	return err
}

// change changes events for at most changeTime. Then it redirects to the list if a single
// event was changed from there, otherwise to the page of the event or of the progress.
func (h *Handler) change(w http.ResponseWriter, r *http.Request) {
	b, ok := h.bulkOf(w, r.PostForm)
	if !ok {
		return
	}
	if b.filter.Keys == nil && b.filter.Until.IsZero() {
		h.reject(w, http.StatusBadRequest, badLink, 1)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), changeTime)
	defer cancel()
	n, err := b.change(h.config.Engine, ctx, b.filter)
	if h.config.Observer.Changed != nil {
		h.config.Observer.Changed(r, Change{Action: b.Name, Filter: b.filter, Count: n, Err: err})
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		h.fail(w, fmt.Errorf("%s Then the inbox failed: %w", b.message(n), err))
		return
	}
	earlier := cmp.Or(b.before, &outcome{}).Count
	did := h.outcomes.Keep(outcome{b.action, earlier + n})
	switch {
	case len(b.filter.Keys) != 1:
		query := b.query()
		query.Set("did", did)
		if err == nil {
			query.Del("until")
		}
		redirect(w, address("bulk", query))
	case b.from != "":
		redirect(w, back(r.PostForm, did))
	default:
		redirect(w, address("event", url.Values{"key": {b.filter.Keys[0].String()}, "did": {did}}))
	}
}

// breakdown is the number of events by type, clinic or reason, largest groups first.
type breakdown struct {
	Title  string
	Groups []option
	More   int // hidden groups
}

// mostGroups is the number of groups shown.
const mostGroups = 6

func breakdowns(c engine.Counts) []breakdown {
	all := []breakdown{
		{Title: "reason", Groups: optionsOf(c.Causes, "", func(cause engine.Cause) int { return cause.Events })},
		{Title: "type", Groups: optionsOf(c.Types, "", same)},
		{Title: "clinic", Groups: optionsOf(c.Clinics, "", same)},
	}
	for n := range all {
		b := &all[n]
		slices.SortStableFunc(b.Groups, func(a, b option) int { return cmp.Compare(b.Count, a.Count) })
		b.More = max(0, len(b.Groups)-mostGroups)
		b.Groups = b.Groups[:len(b.Groups)-b.More]
	}
	return all
}
