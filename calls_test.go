package dispensary_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
)

// nameRecords gives all records of a fixture one id, but for those that bodies name.
func nameRecords(f *calltest.Fixture, op *operation.Operation, id string) {
	for _, field := range []*string{
		&f.Patient, &f.Staff, &f.Order, &f.Plan, &f.Draft, &f.Event, &f.Product, &f.Brand, &f.Allergen, &f.Ingredient,
		&f.SupplementType, &f.Certification, &f.Category, &f.Protocol,
	} {
		*field = id
	}
	switch {
	case op == operation.VariantGet:
		f.Variant = id
	case strings.HasPrefix(op.Route, "/clinic/practitioners/"):
		f.Practitioner = id
	}
}

// Calls that name a record know an unknown id from an empty one: the first is asked
// for, the second is not even sent.
func TestCallsThatNameNothing(t *testing.T) {
	t.Parallel()
	for _, op := range operation.All() {
		for param := range op.Params() {
			t.Run(op.Name, func(t *testing.T) {
				t.Parallel()
				f := calltest.NewFixture(t)
				call := calltest.All(t)[op.Name]
				nameRecords(f, op, "")
				f.Platform.Journal().Reset()
				_, err := call(t.Context(), f)
				resourcetest.RequireUnsent(t, f.Platform, err, op.Name, param)

				nameRecords(f, op, "00000000-0000-4000-8000-000000000000")
				_, err = call(t.Context(), f)
				requireFailed(t, f, op, err, http.StatusNotFound, api.ErrNotFound)
			})
		}
	}
}

// What the platform refuses is the same error whatever was called.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	for _, op := range operation.All() {
		if !op.NeedsToken() {
			continue // package oauth has tests of its own
		}
		t.Run(op.Name, func(t *testing.T) {
			t.Parallel()
			f := calltest.NewFixture(t)
			f.Platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: http.StatusUnprocessableEntity})
			_, err := calltest.All(t)[op.Name](t.Context(), f)
			failure := requireFailed(t, f, op, err, http.StatusUnprocessableEntity, api.ErrInvalid)
			assert.NotEmpty(t, failure.Messages())
		})
	}
}

// requireFailed demands that the last request of the platform was answered with status,
// and that the error says so.
func requireFailed(t *testing.T, f *calltest.Fixture, op *operation.Operation, err error, status int, sentinel error) *api.Error {
	t.Helper()
	var failure *api.Error
	require.ErrorAs(t, err, &failure)
	require.ErrorIs(t, err, sentinel)
	assert.Equal(t, status, failure.StatusCode)
	assert.Equal(t, op.Name, failure.Operation)
	want := api.OutcomeRefused
	if op.Read() {
		want = api.OutcomeNone // there was nothing to apply
	}
	assert.Equal(t, want, failure.Outcome)
	last, _ := f.Platform.Journal().Last()
	assert.Equal(t, last.ID, failure.RequestID)
	return failure
}
