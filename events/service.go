package events

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/resource"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Service reads the platform's record of events, to find events that a webhook has missed. The
// platform keeps them for 30 days. Get it from the root client.
type Service struct {
	// Deliveries reads the log of webhook deliveries.
	Deliveries Deliveries

	t *transport.Client
}

// NewService returns the services for events. It is for this module only: t is internal.
func NewService(t *transport.Client) Service {
	return Service{Deliveries: Deliveries{t}, t: t}
}

// Get returns one event with its data. [As] decodes the data. If the event is unknown or older
// than 30 days, the error matches [api.ErrNotFound].
// API section: GET /events/<id>.
func (s Service) Get(ctx context.Context, id string, options ...api.RequestOption) (*Event, error) {
	return transport.One[Event](ctx, s.t, transport.Call{Operation: operation.EventGet, Path: []string{id}, Options: options})
}

// Delivery is an entry of the platform's delivery log: the attempts to deliver one event, and
// the response of your server. The platform keeps it for 30 days. It prints as its type and
// ID: see "Patient data" in package api.
// API section: "Webhook delivery".
type Delivery struct {
	ID string `json:"id"`

	// AttemptNumber is the number of attempts made for this event.
	AttemptNumber int `json:"attempt_number"`

	AttemptedAt api.Timestamp `json:"attempted_at"`

	// PreviousAttemptAt and NextAttemptAt are zero if there is no such attempt.
	PreviousAttemptAt api.Timestamp `json:"previous_attempt_at"`
	NextAttemptAt     api.Timestamp `json:"next_attempt_at"`

	SuccessfullyDelivered bool `json:"successfully_delivered"`

	// ResponseStatus, ResponseBody, ResponseHeader and ResponseIPAddress come from your server.
	// They are zero if no server responded.
	ResponseStatus    int    `json:"response_status"`
	ResponseBody      string `json:"response_body"`
	ResponseHeader    string `json:"response_header"`
	ResponseIPAddress string `json:"response_ip_address"`

	// ResponseErrors describes errors of the delivery. It is empty if there were none.
	ResponseErrors string `json:"response_errors"`

	// EventPayload is the sent event, in the envelope of webhooks.
	EventPayload json.RawMessage `json:"event_payload"`
}

// Event returns the delivered event. It fails with the errors of [Parse].
func (d Delivery) Event() (Event, error) { return Parse(d.EventPayload) }

// Deliveries calls the webhook delivery endpoint. Get it from [Service].
type Deliveries struct{ t *transport.Client }

// DeliveryListOptions filter and sort deliveries. The zero value selects all deliveries.
// API section: GET /webhooks/deliveries.
type DeliveryListOptions struct {
	// AttemptedSince and AttemptedBefore select deliveries by the time of the attempt, from the
	// first (inclusive) to the second (exclusive). Zero means no bound. The API filters by day,
	// so List drops the other deliveries of the first and the last day.
	AttemptedSince  time.Time `url:"-"`
	AttemptedBefore time.Time `url:"-"`

	EventID string `url:"event_id,omitempty"`

	// Outcome selects successful or failed deliveries. Empty selects both.
	Outcome DeliveryOutcome `url:"successfully_delivered,omitempty"`

	// SortBy is the field to sort by. Empty means the platform's own order.
	SortBy    DeliverySort  `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// DeliveryOutcome is the result of a delivery.
type DeliveryOutcome string

// The outcomes, in the spelling of the platform's filter.
const (
	DeliveryOutcomeDelivered   DeliveryOutcome = "true"
	DeliveryOutcomeUndelivered DeliveryOutcome = "false"
)

// DeliverySort is a sort field of deliveries.
type DeliverySort string

// The sort fields of deliveries.
const (
	DeliverySortEvent   DeliverySort = "event_id"
	DeliverySortAttempt DeliverySort = "attempted_at"
)

// List returns the deliveries of the last 30 days that match o.
// API section: GET /webhooks/deliveries.
func (s Deliveries) List(o DeliveryListOptions, options ...api.RequestOption) *api.List[Delivery] {
	attempted := resource.Period{Since: o.AttemptedSince, Before: o.AttemptedBefore}
	query := struct {
		DeliveryListOptions
		Attempted resource.Period `url:"attempted_at"`
	}{o, attempted}
	list := transport.NewList[Delivery](s.t, transport.Call{Operation: operation.WebhookDeliveryList, Query: query, Options: options})
	return resource.Filter(list, attempted, func(d Delivery) time.Time { return d.AttemptedAt.Time })
}

// Format prints type and ID only.
func (d Delivery) Format(f fmt.State, _ rune) { redact.Format(f, "events.Delivery", d.ID) }

// LogValue logs type and ID only.
func (d Delivery) LogValue() slog.Value { return redact.LogValue("events.Delivery", d.ID) }
