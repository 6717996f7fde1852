package admin

import (
	"errors"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

const (
	// perPage is the number of rows on a page of a list.
	perPage = 50

	// mostCounted is the largest number of events that a page counts by type, clinic and
	// reason. [engine.Stats] counts all events.
	mostCounted = 20_000

	// mostOptions is the largest number of clinics in a select element. If there are more, a
	// text field suggests them.
	mostOptions = 500
)

// listView is a page of events.
type listView struct {
	Filter                 engine.Filter
	State                  string
	Since, Before          string // values of the fields
	Zone                   string // time zone of the fields
	Types, Clinics, Causes []option
	Shortcuts              []shortcut
	Narrowed               bool
	Total                  int
	Capped                 bool // more events may match
	Oldest                 time.Time
	Events                 []*eventView
	From                   string       // query of this page
	First                  template.URL // link to the first page, empty on it
	Next                   template.URL // link to the next page, empty on the last
	Bulk                   []bulkLink
	Finished               []engine.Finished
}

// Many reports whether there are too many clinics for a select element.
func (v listView) Many() bool { return len(v.Clinics) > mostOptions }

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
	var after engine.Position
	if errors.Join(err, after.UnmarshalText([]byte(query.Get("after")))) != nil {
		h.refuse(w, http.StatusBadRequest, badLink, 1)
		return
	}
	v := listView{Filter: f, State: query.Get("state"), Zone: now.Format("MST"), Since: field(f.GivenUpFrom, now), Before: field(f.GivenUpBefore, now)}
	listed, err := h.config.Engine.List(r.Context(), f, after, perPage+1)
	if err == nil {
		err = h.countList(r, &v)
	}
	if err == nil && len(listed) == 0 && f.ID != "" {
		v.Finished, err = h.config.Engine.Finished(r.Context(), f.ID)
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	v.setPages(listed, after, now)
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
	h.show(w, http.StatusOK, "list", frame{Title: title, Path: path, View: v, Did: didOf(query)})
}

// countList counts the events of the list. Their types, clinics and reasons become the choices
// of the filter.
func (h *Handler) countList(r *http.Request, v *listView) error {
	counts, err := h.config.Engine.Count(r.Context(), v.Filter, mostCounted)
	v.Total, v.Capped, v.Oldest = counts.Total, counts.Total == mostCounted, counts.Oldest
	v.Types = optionsOf(counts.Types, v.Filter.Type, same)
	v.Clinics = optionsOf(counts.Clinics, v.Filter.ClinicID, same)
	v.Causes = optionsOf(counts.Causes, v.Filter.Reason, func(c engine.Cause) int { return c.Events })
	narrow := queryOf(v.Filter)
	narrow.Del("state")
	v.Narrowed = len(narrow) > 0
	return err
}

// setPages sets the rows of a page, and the links to other pages.
func (v *listView) setPages(listed []engine.Event, after engine.Position, now time.Time) {
	v.From = backOf(v.Filter, after)
	for n := range listed[:min(perPage, len(listed))] {
		v.Events = append(v.Events, viewOf(&listed[n], v.From, now))
	}
	if !after.IsZero() {
		v.First = address("events", queryOf(v.Filter))
	}
	if len(listed) > perPage {
		next := queryOf(v.Filter)
		next.Set("after", listed[perPage-1].Position.String())
		v.Next = address("events", next)
	}
}

// field formats a time for a form field.
func field(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(now.Location()).Format(localTime)
}
