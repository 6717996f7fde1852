package treatmentplans_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// unknown is an id that nothing has.
const unknown = "00000000-0000-4000-8000-000000000000"

// bench is a platform, and its treatment plans as the first practitioner sees
// them.
type bench struct {
	treatmentplans.Service
	*dispensarytest.Server
	sent *resourcetest.LastBody

	patient, practitioner, variant string
}

func start(t *testing.T, options ...dispensarytest.Option) *bench {
	t.Helper()
	platform := dispensarytest.New(t, options...)
	sent := &resourcetest.LastBody{Base: platform.HTTPClient().Transport}
	client := platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: sent}))
	p := platform
	return &bench{
		Service: client.TreatmentPlans, Server: platform, sent: sent,
		patient: p.Patients.All()[3].ID, practitioner: p.Clinics.Practitioners()[0].ID, variant: p.Products.All()[0].VariantIDs[0],
	}
}

// The calls that name a record know an unknown id from an empty one: the first is
// asked for, the second is not even sent.
func TestCallsOnNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	for operation, call := range b.callsByID() {
		b.Journal().Reset()
		var argument *api.ArgumentError
		require.ErrorAs(t, call(t.Context(), ""), &argument, operation)
		assert.Equal(t, operation, argument.Operation)
		assert.Zero(t, b.Journal().Len(), operation)
		var failure *api.Error
		require.ErrorAs(t, call(t.Context(), unknown), &failure, operation)
		require.ErrorIs(t, failure, api.ErrNotFound)
		assert.Equal(t, operation, failure.Operation)
		assert.Equal(t, failure.Method != http.MethodGet, errors.Is(failure, api.ErrRefused), "a write was refused, a read was not")
	}
}

// callsByID are the calls that name a record, by their operation.
func (b *bench) callsByID() map[string]func(ctx context.Context, id string) error {
	lines := []treatmentplans.Recommendation{{VariantID: b.variant, UnitsToPurchase: 1}}
	return map[string]func(ctx context.Context, id string) error{
		"dynamic_links.get": func(ctx context.Context, id string) error { _, err := b.DynamicLinks.Get(ctx, id); return err },
		"protocols.get":     func(ctx context.Context, id string) error { _, err := b.Protocols.Get(ctx, id); return err },
		"protocols.list": func(ctx context.Context, id string) error {
			_, err := b.Protocols.List(ctx, id, treatmentplans.ProtocolListOptions{})
			return err
		},
		"treatment_plans.activate": func(ctx context.Context, id string) error { _, err := b.Activate(ctx, id); return err },
		"treatment_plans.cancel":   func(ctx context.Context, id string) error { _, err := b.Cancel(ctx, id); return err },
		"treatment_plans.create": func(ctx context.Context, id string) error {
			_, err := b.Create(ctx, id, treatmentplans.NewPlan{PractitionerID: b.practitioner, Recommendations: lines})
			return err
		},
		"treatment_plans.get": func(ctx context.Context, id string) error { _, err := b.Get(ctx, id); return err },
		"treatment_plans.in_office_checkout": func(ctx context.Context, id string) error {
			_, err := b.InOfficeCheckout(ctx, id)
			return err
		},
		"treatment_plans.list": func(ctx context.Context, id string) error {
			_, err := b.List(ctx, id, treatmentplans.ListOptions{})
			return err
		},
		"treatment_plans.update": func(ctx context.Context, id string) error {
			_, err := b.Update(ctx, id, treatmentplans.PlanUpdate{Recommendations: lines})
			return err
		},
	}
}
