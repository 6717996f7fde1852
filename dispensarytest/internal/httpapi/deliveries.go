package httpapi

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
)

// deliveryView is a delivery as the API shows it. API section: "Webhook
// delivery".
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

// listDeliveries shows one row for each event and integration, as its latest
// attempt left it. That, and a response_status of null where no answer came, is
// an assumption.
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
	rows := c.api.Sender.List(c.now, asked, c.behaviors.LogAttempts)
	return listOf(c, rows, func(d *webhooks.Entry) deliveryView { return viewDelivery(d, c.behaviors.ZeroStatus) }), nil
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
