package admin

import (
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// perPage is the number of events on a page of a list.
const perPage = 50

// listView is a page of dead letters, or of what waits.
type listView struct {
	Dead     bool
	Filter   engine.Filter
	Age      string
	Narrowed bool
	Total    int
	Capped   bool // there may be more
	Oldest   time.Time
	By       []breakdown
	Events   []eventView
	First    template.URL // to the first page; empty on it
	Next     template.URL // to the next page; empty on the last
	Replay   template.URL // to the dry run for these events
	Discard  template.URL
}

// eventView is an event on a page.
type eventView struct {
	engine.Event
	Dead bool
	Link template.URL
}

func viewOf(e engine.Event) eventView {
	return eventView{e, e.State == engine.StateDead, address("event", url.Values{"key": {e.Key.String()}})}
}

// list shows the events of a state.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	v := listView{Dead: path == "dead", Age: r.URL.Query().Get("age")}
	f, err := filterOf(r.URL.Query(), h.config.Now())
	var after engine.Position
	if err := errors.Join(err, after.UnmarshalText([]byte(r.URL.Query().Get("after")))); err != nil {
		h.refuse(w, http.StatusBadRequest, errBadFilter.Error(), 1)
		return
	}
	v.Filter = f
	if f.States = notDead; v.Dead {
		f.States = deadOnly
	}
	counts, err := h.config.Engine.Count(r.Context(), f, mostCounted)
	if err != nil {
		h.fail(w, err)
		return
	}
	listed, err := h.config.Engine.List(r.Context(), f, after, perPage+1)
	if err != nil {
		h.fail(w, err)
		return
	}
	query := url.Values{}
	for _, name := range []string{"type", "clinic", "reason", "age", "from", "before"} {
		if value := trimmed(r.URL.Query(), name); value != "" {
			query.Set(name, value)
		}
	}
	v.Narrowed = len(query) > 0
	v.Total, v.Capped, v.Oldest = counts.Total, counts.Total == mostCounted, counts.Oldest
	v.By = breakdowns(counts, path, query)
	for _, e := range listed[:min(perPage, len(listed))] {
		v.Events = append(v.Events, viewOf(e))
	}
	if !after.IsZero() {
		v.First = address(path, query)
	}
	if len(listed) > perPage {
		next := maps.Clone(query)
		next.Set("after", listed[perPage-1].Position.String())
		v.Next = address(path, next)
	}
	v.Replay, v.Discard = bulkAddress("replay", v.Filter), bulkAddress("discard", v.Filter)
	title := "Waiting"
	if v.Dead {
		title = "Dead letters"
	}
	h.show(w, http.StatusOK, "list", frame{Title: title, Path: path, View: v})
}
