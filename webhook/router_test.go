package webhook_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/treatmentplans"
	"github.com/dispensary-go/dispensary/webhook"
)

// note returns a handler that appends the type of the event and the ID of its object to seen.
func note[T events.Payload](seen *[]string, id func(T) string) func(context.Context, events.Typed[T]) error {
	return func(_ context.Context, e events.Typed[T]) error {
		*seen = append(*seen, string(e.Type)+" "+id(e.Object))
		return nil
	}
}

func TestRouterDispatchesEveryType(t *testing.T) {
	t.Parallel()
	var seen []string
	key := note(&seen, func(k events.ClinicKey) string { return k.ID })
	order := note(&seen, func(o clinic.Order) string { return o.ID })
	patient := note(&seen, func(p clinic.Patient) string { return p.ID })
	product := note(&seen, func(p catalog.Product) string { return p.ID })
	plan := note(&seen, func(p treatmentplans.Plan) string { return p.ID })
	var r webhook.Router
	r.OnClinicKeyActivated(key)
	r.OnClinicKeyRevoked(key)
	r.OnOrderPlaced(order)
	r.OnPatientCreated(patient)
	r.OnPatientUpdated(patient)
	r.OnProductCreated(product)
	r.OnProductDescriptionUpdated(product)
	r.OnProductUpdated(product)
	r.OnTreatmentPlanCreated(plan)
	r.OnTreatmentPlanRecommendationUpdated(plan)
	r.OnTreatmentPlanUpdated(plan)
	r.Default(func(context.Context, events.Event) error { seen = append(seen, "default"); return nil })

	for _, kind := range []events.Type{
		events.TypeClinicKeyActivated, events.TypeClinicKeyRevoked, events.TypeOrderPlaced, events.TypePatientCreated,
		events.TypePatientUpdated, events.TypeProductCreated, events.TypeProductDescriptionUpdated, events.TypeProductUpdated,
		events.TypeTreatmentPlanCreated, events.TypeTreatmentPlanRecommendationUpdated, events.TypeTreatmentPlanUpdated,
	} {
		seen = nil
		require.NoError(t, r.Dispatch(t.Context(), events.Event{ID: "e", Type: kind, Data: json.RawMessage(`{"id":"x_1"}`)}))
		assert.Equal(t, []string{string(kind) + " x_1"}, seen)
	}
	seen = nil
	require.NoError(t, r.Dispatch(t.Context(), events.Event{ID: "e", Type: "galaxy.born"}))
	assert.Equal(t, []string{"default"}, seen)
}

func TestRouterIgnoresUnhandledTypes(t *testing.T) {
	t.Parallel()
	var r webhook.Router
	require.NoError(t, r.Dispatch(t.Context(), events.Event{ID: "e", Type: "galaxy.born"}))
	require.NoError(t, r.Dispatch(t.Context(), events.Event{ID: "e", Type: events.TypeOrderPlaced, Data: json.RawMessage(`7`)}))
}

func TestRouterReturnsErrors(t *testing.T) {
	t.Parallel()
	var r webhook.Router
	r.OnOrderPlaced(func(context.Context, events.OrderEvent) error { return errDown })
	r.Default(fail)
	require.ErrorIs(t, r.Dispatch(t.Context(), events.Event{ID: "e", Type: "galaxy.born"}), errDown)
	require.ErrorIs(t, r.Dispatch(t.Context(), events.Event{ID: "e", Type: events.TypeOrderPlaced, Data: json.RawMessage(`{"id":"o"}`)}), errDown)

	err := r.Dispatch(t.Context(), events.Event{ID: "e", Type: events.TypeOrderPlaced, Data: json.RawMessage(`["Ada"]`)})
	require.ErrorIs(t, err, events.ErrBadData)
	require.EqualError(t, err, `events: data cannot be decoded: order.placed "e"`)
}

func TestRouterAppliesMiddleware(t *testing.T) {
	t.Parallel()
	var trace []string
	layer := func(name string) func(webhook.HandlerFunc) webhook.HandlerFunc {
		return func(next webhook.HandlerFunc) webhook.HandlerFunc {
			return func(ctx context.Context, e events.Event) error {
				trace = append(trace, name)
				return next(ctx, e)
			}
		}
	}
	var r webhook.Router
	r.Use(layer("outer"), layer("middle"))
	r.OnOrderPlaced(note(&trace, func(o clinic.Order) string { return o.ID }))
	r.Use(layer("inner"))
	require.NoError(t, r.Dispatch(t.Context(), events.Event{Type: events.TypeOrderPlaced, Data: json.RawMessage(`{"id":"or_1"}`)}))
	require.NoError(t, r.Dispatch(t.Context(), events.Event{Type: "galaxy.born"}))
	assert.Equal(t, []string{"outer", "middle", "inner", "order.placed or_1", "outer", "middle", "inner"}, trace)
}

func TestRouterPanicsOnMisuse(t *testing.T) {
	t.Parallel()
	order := func(context.Context, events.OrderEvent) error { return nil }
	for want, mistake := range map[string]func(*webhook.Router){
		"webhook: Router: order.placed handler registered twice":                 func(r *webhook.Router) { r.OnOrderPlaced(order); r.OnOrderPlaced(order) },
		"webhook: Router: order.placed handler is nil":                           func(r *webhook.Router) { r.OnOrderPlaced(nil) },
		"webhook: Router: default handler registered twice":                      func(r *webhook.Router) { r.Default(succeed); r.Default(succeed) },
		"webhook: Router: default handler is nil":                                func(r *webhook.Router) { r.Default(nil) },
		"webhook: Router: middleware handler is nil":                             func(r *webhook.Router) { r.Use(nil) },
		"webhook: Router: order.placed handler registered after the first event": func(r *webhook.Router) { _ = r.Dispatch(t.Context(), events.Event{}); r.OnOrderPlaced(order) },
		"webhook: Router: default handler registered after the first event":      func(r *webhook.Router) { _ = r.Dispatch(t.Context(), events.Event{}); r.Default(succeed) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			assert.PanicsWithValue(t, want, func() { mistake(&webhook.Router{}) })
		})
	}
}
