package httpapi

import (
	"slices"
	"strconv"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// keeps reports whether this clinic can still read an event.
func (c *call) keeps(e *model.Event) bool {
	return (e.ClinicID == "" || e.ClinicID == c.clinicID()) && c.now.Sub(e.CreatedAt) <= store.Retention
}

func getEvent(c *call, w *store.World) (reply, error) {
	e, known := table.Get(w.Events, c.arg)
	if !known || !c.keeps(e) {
		return reply{}, notFound()
	}
	if err := c.require(view.EventScope(e.Type)); err != nil {
		return reply{}, err
	}
	return ok(view.Event(e)), nil
}

// listEvents returns a handler for one group of events.
func listEvents(group string) handler {
	types := slices.DeleteFunc(model.EventTypes(), func(t string) bool { return store.EventGroup(t) != group })
	return func(c *call, w *store.World) (reply, error) {
		day, kind := c.query.days("created_at"), c.query.oneOf("event_type", types...)
		whose := c.clinicID()
		if group == "product" {
			whose = ""
		}
		rows := table.Where(table.Of(w.Events, group, whose), func(e *model.Event) bool {
			return (kind == "" || kind == e.Type) && c.now.Sub(e.CreatedAt) <= store.Retention && day.Holds(e.CreatedAt)
		})
		return listOf(c, sorted(c, rows, "created_at", order[model.Event]{
			"event_type": by(func(e *model.Event) string { return e.Type }),
			"created_at": func(a, b *model.Event) int { return a.CreatedAt.Compare(b.CreatedAt) },
		}), view.EventItem), nil
	}
}

// deliveryView is a delivery in a response. API section: "Webhook delivery".
type deliveryView struct {
	ID                string                    `json:"id"`
	AttemptNumber     int                       `json:"attempt_number"`
	AttemptedAt       string                    `json:"attempted_at"`
	PreviousAttemptAt *string                   `json:"previous_attempt_at"`
	NextAttemptAt     *string                   `json:"next_attempt_at"`
	Delivered         bool                      `json:"successfully_delivered"`
	ResponseBody      string                    `json:"response_body"`
	ResponseHeader    string                    `json:"response_header"`
	ResponseStatus    *int                      `json:"response_status"`
	ResponseIPAddress string                    `json:"response_ip_address"`
	ResponseErrors    *string                   `json:"response_errors"`
	EventPayload      map[string]view.EventView `json:"event_payload"`
}

// listDeliveries returns one row for each event and integration, with the latest attempt. The
// rows, and a response_status of null without a response, are an assumption.
func listDeliveries(c *call, w *store.World) (reply, error) {
	day, delivered, event := c.query.days("attempted_at"), c.query.oneOf("successfully_delivered", "true", "false"), c.query.get("event_id")
	rows := table.Where(c.api.Sender.List(c.now, c.clinicID(), c.behaviors.Is(behavior.DeliveryLogAttempt)), func(d *webhooks.Entry) bool {
		return day.Holds(d.Latest().At) && (event == "" || event == d.EventID) && (delivered == "" || delivered == strconv.FormatBool(d.Delivered))
	})
	return listOf(c, sorted(c, rows, "attempted_at", order[webhooks.Entry]{
		"event_id":     by(func(d *webhooks.Entry) string { return d.EventID }),
		"attempted_at": func(a, b *webhooks.Entry) int { return a.Latest().At.Compare(b.Latest().At) },
	}), func(d *webhooks.Entry) deliveryView {
		return viewDelivery(d, c.behaviors.Is(behavior.UnansweredStatusZero))
	}), nil
}

func viewDelivery(d *webhooks.Entry, zeroStatus bool) deliveryView {
	last := d.Latest()
	response := deliveryView{
		ID: d.ID, AttemptNumber: len(d.Attempts), AttemptedAt: view.Time(last.At),
		NextAttemptAt: view.NullTime(d.NextAttemptAt), Delivered: d.Delivered,
		ResponseBody: last.ResponseBody, ResponseHeader: last.ResponseHeader,
		ResponseIPAddress: last.IPAddress, ResponseErrors: view.NullText(last.Err),
	}
	if last.Status != 0 || zeroStatus {
		response.ResponseStatus = new(last.Status)
	}
	if n := len(d.Attempts); n > 1 {
		response.PreviousAttemptAt = new(view.Time(d.Attempts[n-2].At))
	}
	event := view.Event(&d.Event)
	event.IntegrationID = d.IntegrationID
	response.EventPayload = map[string]view.EventView{"event": event}
	return response
}
