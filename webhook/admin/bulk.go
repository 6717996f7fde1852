package admin

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

const (
	// defaultMost is how many events are changed at most, unless more are asked for.
	defaultMost = 1000

	// changeTime is how long a request changes events. What is left is for the next.
	changeTime = 5 * time.Second
)

// action is what can be done with dead letters.
type action struct {
	Name        string // in addresses
	Verb        string
	Done        string
	Description string

	change   func(engine.Engine, context.Context, engine.Filter) (int, error)
	observer func(Observer) func(*http.Request, Change)
}

var actions = []action{
	{
		"replay", "Replay", "replayed", "Each is handled again, with as many attempts as a new event.",
		engine.Engine.Replay, func(o Observer) func(*http.Request, Change) { return o.Replayed },
	},
	{
		"discard", "Discard", "discarded", "Each is dropped for good, with its body. It is not handled, also if the platform sends it again.",
		engine.Engine.Discard, func(o Observer) func(*http.Request, Change) { return o.Discarded },
	},
}

func bulkAddress(name string, f engine.Filter) template.URL {
	query := queryOf(f)
	query.Set("action", name)
	return address("bulk", query)
}

// bulk is what an address or a form of this page asks for.
type bulk struct {
	action
	filter engine.Filter
	most   int
	done   int  // by the requests before
	begun  bool // there were some
}

// bulkOf reads it, or shows why it cannot be read.
func (h *Handler) bulkOf(w http.ResponseWriter, query url.Values) (b bulk, ok bool) {
	at := slices.IndexFunc(actions, func(a action) bool { return a.Name == query.Get("action") })
	f, err := filterOf(query, h.config.Now())
	if at < 0 || err != nil {
		h.refuse(w, http.StatusBadRequest, errBadFilter.Error(), 1)
		return b, false
	}
	f.States = deadOnly
	b = bulk{action: actions[at], filter: f, most: defaultMost}
	if n, err := strconv.Atoi(query.Get("most")); err == nil && n > 0 {
		b.most = n
	}
	if n, err := strconv.Atoi(query.Get("done")); err == nil && n >= 0 {
		b.done, b.begun = n, true
	}
	return b, true
}

// query is an address or a form of the same events.
func (b bulk) query() url.Values {
	query := queryOf(b.filter)
	query.Set("action", b.Name)
	if b.most != defaultMost {
		query.Set("most", strconv.Itoa(b.most))
	}
	return query
}

// bulkView is the page of a dry run, and of how far it was done.
type bulkView struct {
	action
	Begun  bool
	Count  int  // of those done
	Total  int  // of those to be done
	Others int  // that match too: beyond the number, or dead since
	Capped bool // there may be more others
	Most   int
	ByKey  bool // it names events, and counts none
	By     []breakdown
	Form   []field // the filter, the action and the number
	Limit  []field // the filter without its end, to count again
	Back   template.URL
	Rest   template.URL // to the dry run for the others
}

type field struct{ Name, Value string }

func fieldsOf(query url.Values) (fields []field) {
	for name, values := range query {
		for _, value := range values {
			fields = append(fields, field{name, value})
		}
	}
	return fields
}

// dryRun says what would be changed, or what is left.
func (h *Handler) dryRun(w http.ResponseWriter, r *http.Request) {
	b, ok := h.bulkOf(w, r.URL.Query())
	if !ok {
		return
	}
	v := bulkView{action: b.action, Begun: b.begun, Count: b.done, Most: b.most, ByKey: b.filter.Keys != nil}
	if err := h.count(r.Context(), &b, &v); err != nil {
		h.fail(w, err)
		return
	}
	v.Form = fieldsOf(b.query())
	open := b.filter
	open.Until, open.Keys = engine.Position{}, nil
	v.Limit, v.Back = fieldsOf(queryOf(open)), address("dead", queryOf(open))
	b.filter = open
	v.Rest = address("bulk", b.query())
	h.show(w, http.StatusOK, "bulk", frame{Title: b.Verb + " dead letters", Path: "dead", View: v})
}

// count counts the events to change, finds the last of them, and counts the others that match.
// Named events are not counted after a change: one that is found has died again.
func (h *Handler) count(ctx context.Context, b *bulk, v *bulkView) error {
	if v.ByKey && b.begun {
		return nil
	}
	open, most, known := b.filter, b.most, v.ByKey || !b.filter.Until.IsZero()
	if open.Until = (engine.Position{}); known {
		most = 0
	}
	counts, err := h.config.Engine.Count(ctx, b.filter, most)
	if err != nil {
		return err
	}
	v.Total, v.By = counts.Total, breakdowns(counts, "", nil)
	if !known {
		b.filter.Until = counts.Until
	}
	if v.ByKey || counts.Total < most || b.begun && counts.Total > 0 {
		return nil
	}
	all, err := h.config.Engine.Count(ctx, open, counts.Total+mostCounted)
	v.Others, v.Capped = max(0, all.Total-counts.Total), all.Total == counts.Total+mostCounted
	return err
}

// change replays or discards, for as long as a request may take, and leads to the page
// that says how far that was done.
func (h *Handler) change(w http.ResponseWriter, r *http.Request) {
	b, ok := h.bulkOf(w, r.PostForm)
	if !ok {
		return
	}
	if b.filter.Keys == nil && b.filter.Until.IsZero() {
		h.refuse(w, http.StatusBadRequest, errBadFilter.Error(), 1)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), changeTime)
	defer cancel()
	n, err := b.change(h.config.Engine, ctx, b.filter)
	if tell := b.observer(h.config.Observer); tell != nil {
		tell(r, Change{Filter: b.filter, Count: n, Err: err})
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		h.fail(w, fmt.Errorf("%s were %s, and then: %w", thousands(n), b.Done, err))
		return
	}
	query := b.query()
	query.Set("done", strconv.Itoa(b.done+n))
	w.Header().Set("Location", string(address("bulk", query))) // not http.Redirect, which does not know where this is mounted
	w.WriteHeader(http.StatusSeeOther)
}
