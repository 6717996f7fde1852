package treatmentplans_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
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

// stored responds to every request with one plan, and stores the last request body.
type stored struct {
	plan string
	body string
}

func (s *stored) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		s.body = string(body)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"treatment_plan":` + s.plan + `}`)), Request: r}, nil
}

const planOfTomorrow = `{"id":"p1","state":"active","recommendations":[
	{"variant_id":"v1","refill":true,"units_to_purchase":1,"marked":{"a":["\u00e9"]},"dosage":{"amount":"1","times":["08:00"]}},
	{"variant_id":"v2","refill":false,"units_to_purchase":3,"dosage":{"times":[]}},
	{"variant_id":"v3","refill":false,"units_to_purchase":4,"rank":null}]}`

func TestUpdateKeepsUnknownMembers(t *testing.T) {
	t.Parallel()
	platform := &stored{plan: planOfTomorrow}
	client := dispensarytest.New(t).Client(model.User{}, dispensary.WithTransport(platform))
	plan, err := client.TreatmentPlans.Get(t.Context(), "p1")
	require.NoError(t, err)
	plan.Recommendations[0].UnitsToPurchase = 2
	update := treatmentplans.PlanUpdate{
		Recommendations: plan.Recommendations, PersonalMessage: api.Value("Take care"), Metadata: api.Null[clinic.Metadata](),
	}
	_, err = client.TreatmentPlans.Update(t.Context(), "p1", update)
	require.NoError(t, err)
	assert.JSONEq(t, `{"personal_message":"Take care","metadata":null,"recommendations":[
		{"variant_id":"v1","refill":true,"units_to_purchase":2,"marked":{"a":["é"]},"dosage":{"amount":"1","times":["08:00"]}},
		{"variant_id":"v2","refill":false,"units_to_purchase":3,"dosage":{"times":[]}},
		{"variant_id":"v3","refill":false,"units_to_purchase":4,"rank":null}]}`, platform.body)

	update.Recommendations[1].VariantID = "v\xff"
	_, err = client.TreatmentPlans.Update(t.Context(), "p1", update)
	require.ErrorIs(t, err, api.ErrArgument)
	assert.Contains(t, api.ProblemOf(err).Fields, "recommendations[1].variant_id")
}

func TestUnknownMembersPrintLengthOnly(t *testing.T) {
	t.Parallel()
	platform := &stored{plan: planOfTomorrow}
	client := dispensarytest.New(t).Client(model.User{}, dispensary.WithTransport(platform))
	plan, err := client.TreatmentPlans.Get(t.Context(), "p1")
	require.NoError(t, err)
	members := plan.Recommendations[0].Unknown
	assert.Equal(t, treatmentplans.UnknownMembers(`"marked":{"a":["\u00e9"]}`), members)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("plan", "members", members, "line", plan.Recommendations[0])
	text := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		text += fmt.Sprintf(verb+verb+verb, members, plan.Recommendations, plan)
	}
	assert.NotContains(t, text, "marked")
	assert.NotContains(t, text, "6d61726b6564")
	line := plan.Recommendations[0]
	assert.True(t, line == plan.Recommendations[0], "recommendations must be comparable")
}

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
