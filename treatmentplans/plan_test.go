package treatmentplans_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// A dosage decodes with the names of the endpoints and with the names of events.
func TestRecommendationDecodesBothSpellings(t *testing.T) {
	t.Parallel()
	want := treatmentplans.Recommendation{
		VariantID: "v-1", Refill: true, UnitsToPurchase: 2,
		Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: "twice per day", Duration: "30", Format: "capsule", AdditionalInfo: "with food"},
	}
	for _, body := range []string{
		`{"variant_id":"v-1","refill":true,"units_to_purchase":2,"dosage":{"amount":"1-2","frequency":"twice per day","duration":"30","format":"capsule","additional_info":"with food"}}`,
		`{"variant_id":"v-1","refill":"true","units_to_purchase":"2","dosage":{"recommended_amount":"1-2","recommended_frequency":"twice per day","recommended_duration":30,"format":"capsule","additional_info":"with food"}}`,
		`{"variant_id":"v-1","refill":1,"units_to_purchase":2.0,"dosage":{"amount":"1-2","recommended_amount":"9","frequency":"twice per day","duration":30,"format":"capsule","additional_info":"with food","new":{}}}`,
	} {
		var got treatmentplans.Recommendation
		invalid, err := jsondecode.Unmarshal([]byte(body), &got)
		require.NoError(t, err)
		assert.Empty(t, invalid)
		got.Dosage.Unknown = ""
		assert.Equal(t, want, got)
	}
	var none treatmentplans.Recommendation
	invalid, err := jsondecode.Unmarshal([]byte(`{"variant_id":"v-1","dosage":null}`), &none)
	require.NoError(t, err)
	assert.Empty(t, invalid)
	assert.Zero(t, none.Dosage)
	invalid, err = jsondecode.Unmarshal([]byte(`{"dosage":{"amount":["1"]}}`), &none)
	require.NoError(t, err)
	assert.Equal(t, []jsondecode.Invalid{{Field: "dosage.amount"}}, invalid)
}

func TestInOfficeCheckoutFillsCart(t *testing.T) {
	t.Parallel()
	b := start(t)
	plan, err := b.Create(t.Context(), b.patient, treatmentplans.PlanCreate{
		PractitionerID: b.practitioner, Recommendations: []treatmentplans.Recommendation{{VariantID: b.variant, UnitsToPurchase: 2}},
	})
	require.NoError(t, err)
	_, err = b.InOfficeCheckout(t.Context(), plan.ID)
	require.NoError(t, err)
	assert.Equal(t, []model.Line{{VariantID: b.variant, Quantity: 2}}, b.Patients.Cart(b.patient))
}

func TestEmptyPlanURLReportsErrors(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.Tokens.InvalidateAll()
	_, err := b.DynamicLinks.EmptyPlanURL(t.Context())
	require.ErrorIs(t, err, api.ErrUnauthorized)
}

func TestDosageOfConvertsCatalogDosage(t *testing.T) {
	t.Parallel()
	assert.Zero(t, treatmentplans.DosageOf(nil))
	suggested := &catalog.Dosage{Amount: "1-2", Frequency: "twice per day", Duration: "30", Format: "capsule", AdditionalInfo: "with food"}
	assert.Equal(t, treatmentplans.Dosage{
		Amount: "1-2", Frequency: treatmentplans.FrequencyTwicePerDay, Duration: "30", Format: treatmentplans.FormatCapsule, AdditionalInfo: "with food",
	}, treatmentplans.DosageOf(suggested))
}
