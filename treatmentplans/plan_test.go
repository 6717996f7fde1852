package treatmentplans_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// requirePlan holds a plan against the one that the platform has.
func (b *bench) requirePlan(t *testing.T, got treatmentplans.Plan) {
	t.Helper()
	held, known := b.Plans.Get(got.ID)
	require.True(t, known)
	assert.Equal(t, treatmentplans.State(held.State), got.State)
	assert.Equal(t, held.PatientID, got.Patient.ID)
	assert.Equal(t, held.PractitionerID, got.Practitioner.ID)
	assert.Equal(t, held.PersonalMessage, got.PersonalMessage)
	assert.Equal(t, held.MetadataID, got.Metadata.ID)
	assert.Equal(t, api.DateOf(held.AvailableAt), api.DateOf(got.AvailableAt.Time), "the platform has the day only")
	assert.WithinDuration(t, held.CreatedAt, got.CreatedAt.Time, 1e6)
	assert.WithinDuration(t, held.UpdatedAt, got.UpdatedAt.Time, 1e6)
	assert.Equal(t, held.State != model.StateDraft, got.InvitationURL != "", "a draft has no invitation")
	lines := make([]treatmentplans.Recommendation, 0)
	for _, line := range held.Recommendations {
		lines = append(lines, wantLine(line))
	}
	assert.Equal(t, lines, got.Recommendations)
}

func wantLine(held model.Recommendation) treatmentplans.Recommendation {
	line := treatmentplans.Recommendation{
		VariantID: held.VariantID, Refill: held.Refill, UnitsToPurchase: held.UnitsToPurchase,
	}
	if d := held.Dosage; d != nil {
		line.Dosage = treatmentplans.Dosage{
			Amount: d.Amount, Frequency: d.Frequency, Duration: d.Duration,
			Format: d.Format, AdditionalInfo: d.AdditionalInfo,
		}
	}
	return line
}

func TestPlansOfTheWorld(t *testing.T) {
	t.Parallel()
	b := start(t)
	require.NotEmpty(t, b.Plans.All())
	for _, held := range b.Plans.All() {
		got, err := b.Get(t.Context(), held.ID)
		require.NoError(t, err)
		b.requirePlan(t, *got)
		require.NotEmpty(t, got.Recommendations)
		assert.NotEmpty(t, got.Recommendations[0].Dosage.Amount)
	}
}

// A dosage is read in both spellings, that of the endpoints and that of events.
func TestRecommendationSpellings(t *testing.T) {
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
