package dispensarytest

import (
	"context"
	"net/http"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Webhooks are the integrator's webhook endpoint and its deliveries.
type Webhooks interface {
	// Register registers the endpoint in place of an earlier one, and subscribes it to
	// event types. Without types it is subscribed to all. Plain HTTP is accepted only on
	// loopback. With a probe mode other than "off" the endpoint must first respond to
	// an empty request with its challenge.
	Register(address string, types ...string) error

	// RegisterHandler registers a handler as the webhook endpoint. Events reach it without
	// a socket, signed as usual. It combines [Server.Host] and Register.
	RegisterHandler(handler http.Handler, types ...string) error

	// Enable enables a disabled endpoint, as the developer dashboard does. Deliveries that
	// stopped meanwhile do not resume, except with the behavior resume-after-enable.
	Enable() error

	// Endpoint returns the registered endpoint. It returns false if there is none.
	Endpoint() (model.Endpoint, bool)

	// Deliveries returns the deliveries of kept events in the order of their events. See
	// Tuning.EventLimit.
	Deliveries() []model.Delivery

	// WaitDelivered waits until an event is delivered to every integration it concerns,
	// without polling. It returns an error with the reason if the event was not sent, has
	// no attempts left, met a disabled endpoint, or waits for a retry on a frozen clock.
	WaitDelivered(ctx context.Context, eventID string) error
}
