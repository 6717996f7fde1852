package httpapi

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// keeps reports that an event can still be read, by this clinic.
func (c *call) keeps(e *model.Event) bool {
	return (e.ClinicID == "" || e.ClinicID == c.clinicID()) && c.now.Sub(e.CreatedAt) <= store.Retention
}

func getEvent(c *call, w *store.World) (reply, error) {
	e, known := w.Events.Rows[c.arg]
	if !known || !c.keeps(e) {
		return reply{}, notFound()
	}
	if err := c.require(view.EventScope(e.Type)); err != nil {
		return reply{}, err
	}
	return ok(view.Event(e)), nil
}

// listEvents lists one group of events.
func listEvents(group string) handler {
	types := slices.DeleteFunc(model.EventTypes(), func(t string) bool { return model.EventGroup(t) != group })
	return func(c *call, w *store.World) (reply, error) {
		day, err := c.params.days("created_at")
		if err != nil {
			return reply{}, err
		}
		kind, err := c.params.oneOf("event_type", types...)
		if err != nil {
			return reply{}, err
		}
		field, descending, err := c.params.order("event_type", "created_at")
		if err != nil {
			return reply{}, err
		}
		whose := c.clinicID()
		if group == "product" {
			whose = ""
		}
		rows := table.Where(w.Events, func(e *model.Event) bool {
			return e.ClinicID == whose && model.EventGroup(e.Type) == group && (kind == "" || kind == e.Type) &&
				c.now.Sub(e.CreatedAt) <= store.Retention && day.Holds(e.CreatedAt)
		})
		switch {
		case field == "event_type":
			sortRows(rows, descending, func(e *model.Event) string { return e.Type })
		case field != "" || descending:
			sortRows(rows, descending, func(e *model.Event) int64 { return e.CreatedAt.UnixNano() })
		}
		return listOf(c, rows, view.EventItem), nil
	}
}
