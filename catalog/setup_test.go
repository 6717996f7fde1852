package catalog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// unknown is an id that nothing has.
const unknown = "00000000-0000-4000-8000-000000000000"

// start starts a platform and returns its catalog as the first practitioner sees
// it.
func start(t *testing.T) (*dispensarytest.Server, catalog.Service) {
	t.Helper()
	platform := dispensarytest.New(t)
	return platform, platform.Client(model.User{}).Catalog
}

// getter is the Get method of a resource.
type getter[T any] func(ctx context.Context, id string, options ...api.RequestOption) (*T, error)

// checkGet reads every item of a list by its id, where the list has all of it.
func checkGet[T any](t *testing.T, items []T, get getter[T], id func(T) string) {
	t.Helper()
	for _, item := range items {
		single, err := get(t.Context(), id(item))
		require.NoError(t, err)
		assert.Equal(t, item, *single)
	}
}

// Each Get knows an unknown id from an empty one: the first is asked for, the
// second is not even sent.
func TestGetOfNothing(t *testing.T) {
	t.Parallel()
	platform, s := start(t)
	for operation, get := range map[string]func(id string) error{
		"allergens.get":   func(id string) error { _, err := s.Allergens.Get(t.Context(), id); return err },
		"brands.get":      func(id string) error { _, err := s.Brands.Get(t.Context(), id); return err },
		"ingredients.get": func(id string) error { _, err := s.Ingredients.Get(t.Context(), id); return err },
		"products.get": func(id string) error {
			_, err := s.Products.Get(t.Context(), id, catalog.ProductGetOptions{})
			return err
		},
		"products.similar": func(id string) error {
			_, err := s.Products.Similar(t.Context(), id, catalog.ProductListOptions{})
			return err
		},
		"supplement_types.get": func(id string) error { _, err := s.SupplementTypes.Get(t.Context(), id); return err },
		"third_party_certifications.get": func(id string) error {
			_, err := s.ThirdPartyCertifications.Get(t.Context(), id)
			return err
		},
		"variants.get": func(id string) error { _, err := s.Variants.Get(t.Context(), id); return err },
	} {
		platform.Journal().Reset()
		var argument *api.ArgumentError
		require.ErrorAs(t, get(""), &argument, operation)
		assert.Equal(t, operation, argument.Operation)
		assert.Contains(t, argument.Field, "id", operation)
		assert.Zero(t, platform.Journal().Len(), operation)

		var failure *api.Error
		err := get(unknown)
		require.ErrorAs(t, err, &failure, operation)
		require.ErrorIs(t, err, api.ErrNotFound)
		assert.NotErrorIs(t, err, api.ErrMaybeApplied, "nothing was to be applied")
		assert.Equal(t, operation, failure.Operation)
		last, _ := platform.Journal().Last()
		assert.Equal(t, last.ID, failure.RequestID)
	}
}
