package httpapi

import (
	"slices"

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
		rows := table.Where(table.Of(w.Events, group, whose), func(e *model.Event) bool {
			return (kind == "" || kind == e.Type) && c.now.Sub(e.CreatedAt) <= store.Retention && day.Holds(e.CreatedAt)
		})
		switch {
		case field == "event_type":
			rows = sorted(rows, descending, func(e *model.Event) string { return e.Type })
		case field != "" || descending:
			rows = sorted(rows, descending, func(e *model.Event) int64 { return e.CreatedAt.UnixNano() })
		}
		return listOf(c, rows, view.EventItem), nil
	}
}

// deliveryView is a delivery in a response. API section: "Webhook delivery".
type deliveryView struct {
	ID                string  `json:"id"`
	AttemptNumber     int     `json:"attempt_number"`
	AttemptedAt       string  `json:"attempted_at"`
	PreviousAttemptAt *string `json:"previous_attempt_at"`
	NextAttemptAt     *string `json:"next_attempt_at"`
	Delivered         bool    `json:"successfully_delivered"`
	ResponseBody      string  `json:"response_body"`
	ResponseHeader    string  `json:"response_header"`
	ResponseStatus    *int    `json:"response_status"`
	ResponseIPAddress string  `json:"response_ip_address"`
	ResponseErrors    *string `json:"response_errors"`
	EventPayload      struct {
		Event view.EventView `json:"event"`
	} `json:"event_payload"`
}

// listDeliveries returns one row for each event and integration, with the latest attempt. The
// rows, and a response_status of null without a response, are an assumption.
func listDeliveries(c *call, w *store.World) (reply, error) {
	day, err := c.params.days("attempted_at")
	if err != nil {
		return reply{}, err
	}
	delivered, err := c.params.oneOf("successfully_delivered", "true", "false")
	if err != nil {
		return reply{}, err
	}
	field, descending, err := c.params.order("event_id", "attempted_at")
	if err != nil {
		return reply{}, err
	}
	asked := webhooks.DeliveryQuery{Clinic: c.clinicID(), Event: c.params.get("event_id"), Delivered: delivered, Days: day, Field: field, Descending: descending}
	rows := c.api.Sender.List(c.now, asked, c.behaviors.Is(behavior.DeliveryLogAttempt))
	return listOf(c, rows, func(d *webhooks.Entry) deliveryView {
		return viewDelivery(d, c.behaviors.Is(behavior.UnansweredStatusZero))
	}), nil
}

func viewDelivery(d *webhooks.Entry, zeroStatus bool) deliveryView {
	last := d.Latest()
	answer := deliveryView{
		ID: d.ID, AttemptNumber: len(d.Attempts), AttemptedAt: view.Time(last.At),
		NextAttemptAt: view.NullTime(d.NextAttemptAt), Delivered: d.Delivered,
		ResponseBody: last.ResponseBody, ResponseHeader: last.ResponseHeader,
		ResponseIPAddress: last.IPAddress, ResponseErrors: view.NullText(last.Err),
	}
	if last.Status != 0 || zeroStatus {
		answer.ResponseStatus = new(last.Status)
	}
	if n := len(d.Attempts); n > 1 {
		answer.PreviousAttemptAt = new(view.Time(d.Attempts[n-2].At))
	}
	answer.EventPayload.Event = view.Event(&d.Event)
	answer.EventPayload.Event.IntegrationID = d.IntegrationID
	return answer
}
