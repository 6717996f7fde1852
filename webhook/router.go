package webhook

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dispensary-go/dispensary/events"
)

// HandlerFunc handles an event. If it returns an error, the event is retried. It must be
// idempotent, because events may be repeated and out of order.
type HandlerFunc func(ctx context.Context, event events.Event) error

// Router decodes the data of events and calls the handler of their type. The zero value is ready
// to use. Register all handlers before the first event. From then on a Router is safe for
// concurrent use. All methods except Dispatch panic after the first event, for a nil handler,
// and for a second handler of a type.
//
// An event without a handler of its type is passed to the default handler. If there is none, the
// event counts as handled, because the platform may add types at any time.
type Router struct {
	handlers   map[events.Type]HandlerFunc
	fallback   HandlerFunc
	middleware []func(HandlerFunc) HandlerFunc

	seal   sync.Once
	sealed atomic.Bool
	entry  HandlerFunc // the middleware around route, set once sealed
}

// Dispatch calls the handler of the event and returns its error. If the data cannot be decoded,
// it returns an [*events.DataError] and does not call the handler. An undecodable field alone is
// not an error: see [events.Typed].
func (r *Router) Dispatch(ctx context.Context, event events.Event) error {
	r.seal.Do(func() {
		r.sealed.Store(true)
		r.entry = r.route
		for _, around := range slices.Backward(r.middleware) {
			r.entry = around(r.entry)
		}
	})
	return r.entry(ctx, event)
}

func (r *Router) route(ctx context.Context, event events.Event) error {
	if handler, ok := r.handlers[event.Type]; ok {
		return handler(ctx, event)
	}
	if r.fallback != nil {
		return r.fallback(ctx, event)
	}
	return nil
}

// Default registers the handler of all events without a handler of their type.
func (r *Router) Default(handler HandlerFunc) {
	r.mayRegister("default", handler != nil, r.fallback != nil)
	r.fallback = handler
}

// Use wraps the handling of every event in middleware. The first one is the outermost.
func (r *Router) Use(middleware ...func(next HandlerFunc) HandlerFunc) {
	for _, m := range middleware {
		r.mayRegister("middleware", m != nil, false)
	}
	r.middleware = append(r.middleware, middleware...)
}

// OnClinicKeyActivated registers the handler of [events.TypeClinicKeyActivated].
func (r *Router) OnClinicKeyActivated(handler func(context.Context, events.ClinicKeyEvent) error) {
	on(r, events.TypeClinicKeyActivated, handler)
}

// OnClinicKeyRevoked registers the handler of [events.TypeClinicKeyRevoked].
func (r *Router) OnClinicKeyRevoked(handler func(context.Context, events.ClinicKeyEvent) error) {
	on(r, events.TypeClinicKeyRevoked, handler)
}

// OnOrderPlaced registers the handler of [events.TypeOrderPlaced].
func (r *Router) OnOrderPlaced(handler func(context.Context, events.OrderEvent) error) {
	on(r, events.TypeOrderPlaced, handler)
}

// OnPatientCreated registers the handler of [events.TypePatientCreated].
func (r *Router) OnPatientCreated(handler func(context.Context, events.PatientEvent) error) {
	on(r, events.TypePatientCreated, handler)
}

// OnPatientUpdated registers the handler of [events.TypePatientUpdated].
func (r *Router) OnPatientUpdated(handler func(context.Context, events.PatientEvent) error) {
	on(r, events.TypePatientUpdated, handler)
}

// OnProductCreated registers the handler of [events.TypeProductCreated].
func (r *Router) OnProductCreated(handler func(context.Context, events.ProductEvent) error) {
	on(r, events.TypeProductCreated, handler)
}

// OnProductDescriptionUpdated registers the handler of
// [events.TypeProductDescriptionUpdated].
func (r *Router) OnProductDescriptionUpdated(handler func(context.Context, events.ProductEvent) error) {
	on(r, events.TypeProductDescriptionUpdated, handler)
}

// OnProductUpdated registers the handler of [events.TypeProductUpdated].
func (r *Router) OnProductUpdated(handler func(context.Context, events.ProductEvent) error) {
	on(r, events.TypeProductUpdated, handler)
}

// OnTreatmentPlanCreated registers the handler of [events.TypeTreatmentPlanCreated].
func (r *Router) OnTreatmentPlanCreated(handler func(context.Context, events.TreatmentPlanEvent) error) {
	on(r, events.TypeTreatmentPlanCreated, handler)
}

// OnTreatmentPlanRecommendationUpdated registers the handler of
// [events.TypeTreatmentPlanRecommendationUpdated].
func (r *Router) OnTreatmentPlanRecommendationUpdated(handler func(context.Context, events.TreatmentPlanEvent) error) {
	on(r, events.TypeTreatmentPlanRecommendationUpdated, handler)
}

// OnTreatmentPlanUpdated registers the handler of [events.TypeTreatmentPlanUpdated].
func (r *Router) OnTreatmentPlanUpdated(handler func(context.Context, events.TreatmentPlanEvent) error) {
	on(r, events.TypeTreatmentPlanUpdated, handler)
}

func on[T events.Payload](r *Router, kind events.Type, handler func(context.Context, events.Typed[T]) error) {
	r.mayRegister(string(kind), handler != nil, r.handlers[kind] != nil)
	if r.handlers == nil {
		r.handlers = map[events.Type]HandlerFunc{}
	}
	r.handlers[kind] = func(ctx context.Context, event events.Event) error {
		typed, err := events.As[T](event)
		if err != nil {
			return err
		}
		return handler(ctx, typed)
	}
}

func (r *Router) mayRegister(what string, given, taken bool) {
	switch {
	case r.sealed.Load():
		panic("webhook: Router: " + what + " handler registered after the first event")
	case !given:
		panic("webhook: Router: " + what + " handler is nil")
	case taken:
		panic("webhook: Router: " + what + " handler registered twice")
	}
}
