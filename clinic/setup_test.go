package clinic_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

// unknown is an id that nothing has.
const unknown = "00000000-0000-4000-8000-000000000000"

// bench is a platform, and its clinic as the first practitioner sees it.
type bench struct {
	clinic.Service
	Server *dispensarytest.Server
	sent   *resourcetest.LastBody
}

func start(t *testing.T, options ...dispensarytest.Option) *bench {
	t.Helper()
	platform := dispensarytest.New(t, options...)
	sent := &resourcetest.LastBody{Base: platform.HTTPClient().Transport}
	client := platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: sent}))
	return &bench{Service: client.Clinic, Server: platform, sent: sent}
}

// Each Get knows an unknown id from an empty one: the first is asked for, the
// second is not even sent.
func TestGetOfNothing(t *testing.T) {
	t.Parallel()
	b := start(t)
	page := api.Paging{}
	for operation, get := range map[string]func(ctx context.Context, id string) error{
		"addresses.list": func(ctx context.Context, id string) error {
			_, err := b.Addresses.List(ctx, id, clinic.AddressListOptions{Paging: page})
			return err
		},
		"categories.get": func(ctx context.Context, id string) error { _, err := b.Categories.Get(ctx, id); return err },
		"categories.products": func(ctx context.Context, id string) error {
			_, err := b.Categories.Products(ctx, id, clinic.CategoryListOptions{Paging: page})
			return err
		},
		"orders.get": func(ctx context.Context, id string) error { _, err := b.Orders.Get(ctx, id); return err },
		"orders.list_for_patient": func(ctx context.Context, id string) error {
			_, err := b.Orders.ListForPatient(ctx, id, clinic.PatientOrderListOptions{Paging: page})
			return err
		},
		"patients.get":      func(ctx context.Context, id string) error { _, err := b.Patients.Get(ctx, id); return err },
		"practitioners.get": func(ctx context.Context, id string) error { _, err := b.Practitioners.Get(ctx, id); return err },
		"staff.get":         func(ctx context.Context, id string) error { _, err := b.Staff.Get(ctx, id); return err },
	} {
		b.Server.Journal().Reset()
		var argument *api.ArgumentError
		require.ErrorAs(t, get(t.Context(), ""), &argument, operation)
		assert.Equal(t, operation, argument.Operation)
		assert.Zero(t, b.Server.Journal().Len(), operation)
		var failure *api.Error
		require.ErrorAs(t, get(t.Context(), unknown), &failure, operation)
		require.ErrorIs(t, failure, api.ErrNotFound)
		assert.Equal(t, operation, failure.Operation)
		assert.Equal(t, api.OutcomeNone, failure.Outcome, "nothing was to be applied")
	}
}
