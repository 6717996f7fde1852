package clienttest_test

import (
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// forgetRecords clears the ids of a fixture, except the ids in bodies.
func forgetRecords(f *calltest.Fixture, op *operation.Operation) {
	for _, field := range []*string{
		&f.Patient, &f.Staff, &f.Order, &f.Plan, &f.Draft, &f.Event, &f.Product, &f.Brand, &f.Allergen, &f.Ingredient,
		&f.SupplementType, &f.Certification, &f.Category, &f.Protocol,
	} {
		*field = ""
	}
	switch {
	case op == operation.VariantGet:
		f.Variant = ""
	case strings.HasPrefix(op.Route, "/clinic/practitioners/"):
		f.Practitioner = ""
	}
}

// A call with an empty path parameter is not sent.
func TestEmptyPathParameterSendsNoRequest(t *testing.T) {
	t.Parallel()
	for _, op := range operation.All() {
		for param := range op.Params() {
			t.Run(op.Name, func(t *testing.T) {
				t.Parallel()
				f := calltest.NewFixture(t)
				call := calltest.All(t)[op.Name]
				forgetRecords(f, op)
				f.Platform.Journal.Reset()
				_, err := call(t.Context(), f)
				resourcetest.RequireUnsent(t, f.Platform, err, op.Name, param)
			})
		}
	}
}
