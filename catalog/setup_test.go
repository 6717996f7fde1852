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
