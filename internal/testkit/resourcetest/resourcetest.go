// Package resourcetest contains helpers for the tests of API resources. They collect
// sequences and check that an invalid argument sends no request.
package resourcetest

import (
	"iter"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

// Collect returns the items of a sequence. The test fails if the sequence does.
func Collect[T any](t *testing.T, items iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for item, err := range items {
		require.NoError(t, err)
		all = append(all, item)
	}
	return all
}

// RequireUnsent fails the test unless err names the operation and the field, and the
// platform's journal contains no request since its last reset.
func RequireUnsent(t *testing.T, platform *dispensarytest.Server, err error, operation, field string) {
	t.Helper()
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, operation, argument.Operation)
	assert.Equal(t, field, argument.Field)
	require.ErrorIs(t, err, api.ErrArgument)
	require.ErrorIs(t, err, api.ErrNotSent)
	assert.Empty(t, platform.Journal.Requests(), "a request was sent")
}
