package events

import (
	"context"
	"iter"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Service reads the record of events, to find what a webhook has missed: the
// platform keeps it for 30 days. Get it from the root client.
type Service struct {
	// The five groups of events.
	ClinicKeys     Group
	Orders         Group
	Patients       Group
	Products       Group
	TreatmentPlans Group

	// Deliveries reads what became of the webhooks.
	Deliveries Deliveries

	t *transport.Client
}

// NewService returns the events' services on a transport. The root client calls it.
func NewService(t *transport.Client) Service {
	return Service{
		ClinicKeys:     Group{t, operation.ClinicKeyEventList},
		Orders:         Group{t, operation.OrderEventList},
		Patients:       Group{t, operation.PatientEventList},
		Products:       Group{t, operation.ProductEventList},
		TreatmentPlans: Group{t, operation.TreatmentPlanEventList},
		Deliveries:     Deliveries{t},
		t:              t,
	}
}

// Get returns one event with its data; [As] decodes it. An event that is
// unknown or older than 30 days matches [api.ErrNotFound].
// API section: GET /events/<id>.
func (s Service) Get(ctx context.Context, id string, options ...api.RequestOption) (*Event, error) {
	return transport.One[Event](ctx, s.t, transport.Call{Operation: operation.EventGet, Path: []string{id}, Options: options})
}

// Group lists the events of one kind of object. Lists carry no data: get an
// event by its id for that.
type Group struct {
	t  *transport.Client
	op *operation.Operation
}

// ListOptions says which events are read, and in which order.
// API section: "Events".
type ListOptions struct {
	// CreatedAt keeps the events of some days.
	CreatedAt api.DateFilter `url:"created_at"`

	// Type keeps the events of one type.
	Type Type `url:"event_type,omitempty"`

	// SortBy is the platform's own order where it is empty.
	SortBy    Sort          `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`

	api.Paging `url:"-"`
}

// Sort is a field that events are sorted by.
type Sort string

// The fields that events are sorted by.
const (
	SortType      Sort = "event_type"
	SortCreatedAt Sort = "created_at"
)

func (g Group) list(o ListOptions, options []api.RequestOption) transport.Call {
	return transport.Call{Operation: g.op, Query: o, Options: options}
}

// List returns one page of the group's events.
// API section: GET /events/clinic_keys, /events/orders, /events/patients,
// /events/products, /events/treatment_plans.
func (g Group) List(ctx context.Context, o ListOptions, options ...api.RequestOption) (*api.Page[Event], error) {
	return transport.List[Event](ctx, g.t, g.list(o, options), o.Paging)
}

// Pages returns the group's events page by page; an error ends the sequence.
// API section: as [Group.List].
func (g Group) Pages(ctx context.Context, o ListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Event], error] {
	return transport.Pages[Event](ctx, g.t, g.list(o, options), o.Paging)
}

// All returns the group's events one by one; an error ends the sequence.
// API section: as [Group.List].
func (g Group) All(ctx context.Context, o ListOptions, options ...api.RequestOption) iter.Seq2[Event, error] {
	return transport.All[Event](ctx, g.t, g.list(o, options), o.Paging)
}
