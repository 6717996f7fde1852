package treatmentplans_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// unknown is an ID without a record.
const unknown = "00000000-0000-4000-8000-000000000000"

// bench is a fake platform, and its treatment plans for the first practitioner.
type bench struct {
	treatmentplans.Service
	*dispensarytest.Server

	patient, practitioner, variant string
}

func start(t *testing.T) *bench {
	t.Helper()
	platform := dispensarytest.New(t)
	return &bench{
		Service: platform.Client(model.User{}).TreatmentPlans, Server: platform, patient: platform.Patients.All()[3].ID,
		practitioner: platform.Practitioners.All()[0].ID, variant: platform.Products.All()[0].VariantIDs[0],
	}
}

func recommend(variants ...string) (all []treatmentplans.Recommendation) {
	for _, id := range variants {
		all = append(all, treatmentplans.Recommendation{VariantID: id, UnitsToPurchase: 1})
	}
	return all
}

func TestCheckAvailableListsVariants(t *testing.T) {
	t.Parallel()
	b := start(t)
	sold := b.Products.All()[1].VariantIDs[0]
	for _, status := range []string{model.VariantBackordered, model.VariantDiscontinued, model.VariantUnavailable, model.VariantVendorBackorder} {
		_, _, err := b.Products.UpdateVariant(sold, model.VariantUpdate{Status: &status})
		require.NoError(t, err)
		b.Journal.Reset()

		err = b.CheckAvailable(t.Context(), recommend(b.variant, sold, unknown, sold, b.variant))
		var unavailable *treatmentplans.UnavailableError
		require.ErrorAs(t, err, &unavailable)
		assert.Equal(t, []treatmentplans.UnavailableVariant{
			{Position: 1, VariantID: sold, Status: catalog.Status(status)}, {Position: 2, VariantID: unknown, Unknown: true}, {Position: 3, VariantID: sold, Status: catalog.Status(status)},
		}, unavailable.Variants)
		assert.Equal(t, map[string][]string{
			"recommendations[1].variant_id": {"Recommendations[1].variant is " + status},
			"recommendations[2].variant_id": {"Recommendations[2].variant is not in the catalog"},
			"recommendations[3].variant_id": {"Recommendations[3].variant is " + status},
		}, api.ProblemOf(err).Fields)
		assert.EqualError(t, err, "dispensary: unavailable variants: "+sold+" is "+status+", "+unknown+" is not in the catalog, "+sold+" is "+status)
		assert.Len(t, b.Journal.Requests(), 3, "each variant must be requested once")
	}
	require.NoError(t, b.CheckAvailable(t.Context(), recommend(b.variant)))
	require.NoError(t, b.CheckAvailable(t.Context(), nil))
	assert.EqualError(t, &treatmentplans.UnavailableError{Variants: []treatmentplans.UnavailableVariant{{VariantID: "v"}}}, "dispensary: unavailable variants: v has no status")
}

func TestCheckAvailableRejectsBlankVariant(t *testing.T) {
	t.Parallel()
	b := start(t)
	err := b.CheckAvailable(t.Context(), recommend(b.variant, "", " "))
	assert.EqualError(t, err, "dispensary: variants.get: recommendations[1].variant_id can't be blank, recommendations[2].variant_id can't be blank")
	assert.Empty(t, b.Journal.Requests(), "an invalid list must send nothing")

	b.Close()
	err = b.CheckAvailable(t.Context(), recommend(b.variant))
	var failure *api.Error
	require.ErrorAs(t, err, &failure, "a failed lookup must not count as unavailable")
	assert.Equal(t, "variants.get", failure.Operation)
}
