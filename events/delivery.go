package events

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/period"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Delivery is what became of a webhook: the attempts to deliver one event, and
// what the integrator's server answered. The platform keeps it for 30 days.
// It prints as its type and id: see "Patient data" in package api.
// API section: "Webhook delivery".
type Delivery struct {
	ID string `json:"id"`

	// AttemptNumber counts the attempts made for this event.
	AttemptNumber int `json:"attempt_number"`

	AttemptedAt api.Timestamp `json:"attempted_at"`

	// PreviousAttemptAt and NextAttemptAt are zero where there is none.
	PreviousAttemptAt api.Timestamp `json:"previous_attempt_at"`
	NextAttemptAt     api.Timestamp `json:"next_attempt_at"`

	SuccessfullyDelivered bool `json:"successfully_delivered"`

	// ResponseStatus, ResponseBody, ResponseHeader and ResponseIPAddress are of
	// the integrator's server; zero where none answered.
	ResponseStatus    int    `json:"response_status"`
	ResponseBody      string `json:"response_body"`
	ResponseHeader    string `json:"response_header"`
	ResponseIPAddress string `json:"response_ip_address"`

	// ResponseErrors says what went wrong; empty where nothing did.
	ResponseErrors string `json:"response_errors"`

	// EventPayload is what was sent, in the envelope of webhooks.
	EventPayload json.RawMessage `json:"event_payload"`
}

// Event returns the event that was delivered. Errors are those of [Parse].
func (d Delivery) Event() (Event, error) { return Parse(d.EventPayload) }

// Deliveries calls the webhook delivery endpoint. Get it from [Service].
type Deliveries struct{ t *transport.Client }

// DeliveryListOptions select and sort deliveries. The zero value selects all.
// API section: GET /webhooks/deliveries.
type DeliveryListOptions struct {
	// AttemptedSince and AttemptedBefore select the deliveries attempted from one time until
	// another; zero means no bound. The API filters by day, and List drops the other
	// deliveries of the first and the last day.
	AttemptedSince  time.Time `url:"-"`
	AttemptedBefore time.Time `url:"-"`

	EventID string `url:"event_id,omitempty"`

	// Outcome keeps deliveries that succeeded, or those that did not; empty
	// keeps both.
	Outcome DeliveryOutcome `url:"successfully_delivered,omitempty"`

	// SortBy is the platform's own order where it is empty.
	SortBy    DeliverySort  `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// DeliveryOutcome says whether a delivery succeeded.
type DeliveryOutcome string

// The outcomes, as the platform's filter spells them.
const (
	DeliveryOutcomeDelivered   DeliveryOutcome = "true"
	DeliveryOutcomeUndelivered DeliveryOutcome = "false"
)

// DeliverySort is a field that deliveries are sorted by.
type DeliverySort string

// The fields that deliveries are sorted by.
const (
	DeliverySortEvent   DeliverySort = "event_id"
	DeliverySortAttempt DeliverySort = "attempted_at"
)

// List returns the deliveries of the last 30 days that match.
// API section: GET /webhooks/deliveries.
func (s Deliveries) List(o DeliveryListOptions, options ...api.RequestOption) *api.List[Delivery] {
	attempted := period.Period{Since: o.AttemptedSince, Before: o.AttemptedBefore}
	query := struct {
		DeliveryListOptions
		Attempted period.Period `url:"attempted_at"`
	}{o, attempted}
	list := transport.NewList[Delivery](s.t, transport.Call{Operation: operation.WebhookDeliveryList, Query: query, Options: options})
	return period.Filter(list, attempted, func(d Delivery) time.Time { return d.AttemptedAt.Time })
}

// Format prints type and id only.
func (d Delivery) Format(f fmt.State, _ rune) { redact.Format(f, "events.Delivery", d.ID) }

// LogValue logs type and id only.
func (d Delivery) LogValue() slog.Value { return redact.LogValue("events.Delivery", d.ID) }
