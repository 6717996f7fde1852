package events

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Service reads the record of events, to find the events that a webhook has missed: the
// platform keeps it for 30 days. Get it from the root client.
type Service struct {
	// Deliveries reads the log of webhooks.
	Deliveries Deliveries

	t *transport.Client
}

// NewService returns the events' services. Only this module can call it: t is internal.
func NewService(t *transport.Client) Service {
	return Service{Deliveries: Deliveries{t}, t: t}
}

// Get returns one event with its data; [As] decodes it. An event that is
// unknown or older than 30 days matches [api.ErrNotFound].
// API section: GET /events/<id>.
func (s Service) Get(ctx context.Context, id string, options ...api.RequestOption) (*Event, error) {
	return transport.One[Event](ctx, s.t, transport.Call{Operation: operation.EventGet, Path: []string{id}, Options: options})
}
