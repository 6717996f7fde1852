package events

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
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
