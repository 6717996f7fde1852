package fhir_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/fhir"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

var (
	magnesium = &catalog.Variant{ID: "v1", Units: "90", UnitOfMeasure: "capsules", UPC: "036000291452", Product: &catalog.ProductSummary{Name: "Magnesium", Brand: catalog.BrandSummary{Name: "Own"}}}
	variants  = map[string]*catalog.Variant{"v1": magnesium}
	chart     = fhir.Chart{System: "https://ehr.example/dispensary/us", PatientID: "7", Subject: fhir.Reference{Reference: "Patient/p1"}}
	plan      = treatmentplans.Plan{
		ID: "t1", State: treatmentplans.StateActive, Patient: treatmentplans.PersonRef{ID: "7"}, Practitioner: treatmentplans.PersonRef{ID: "d1"},
		CreatedAt: api.Timestamp{Time: time.Date(2026, 3, 1, 23, 30, 0, 0, time.FixedZone("", -8*3600))},
		Recommendations: []treatmentplans.Recommendation{{VariantID: "v1", UnitsToPurchase: 2, Refill: true, Dosage: treatmentplans.Dosage{
			Amount: "1-2", Frequency: "twice per day", Duration: "30", Format: "capsule", AdditionalInfo: "Take with food.",
		}}},
	}
)

// inState returns plan in another state with other recommendations.
func inState(state treatmentplans.State, lines ...treatmentplans.Recommendation) treatmentplans.Plan {
	other := plan
	other.State, other.Recommendations = state, lines
	return other
}

// mapped returns the row of the first recommendation, which is of the variant v.
func mapped(t *testing.T, c fhir.Chart, p treatmentplans.Plan, v *catalog.Variant) fhir.MedicationRequest {
	t.Helper()
	rows, err := c.Requests(p, map[string]*catalog.Variant{"v1": v})
	require.NoError(t, err)
	return rows[0]
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	assert.JSONEq(t, `{"resourceType":"MedicationRequest","status":"active","intent":"plan","reportedBoolean":true,
		"identifier":[{"system":"https://ehr.example/dispensary/us/recommendation","value":"t1/v1"}],
		"groupIdentifier":{"system":"https://ehr.example/dispensary/us/treatment-plan","value":"t1"},
		"category":[{"coding":[{"system":"http://terminology.hl7.org/CodeSystem/medicationrequest-category","code":"community","display":"Community"}]}],
		"medicationCodeableConcept":{"text":"Own Magnesium, 90 capsules","coding":[
			{"system":"https://ehr.example/dispensary/us/variant","code":"v1","display":"Own Magnesium, 90 capsules"},{"system":"https://www.gs1.org/gtin","code":"036000291452"}]},
		"subject":{"reference":"Patient/p1"},"authoredOn":"2026-03-02T07:30:00Z",
		"requester":{"type":"Practitioner","identifier":{"system":"https://ehr.example/dispensary/us/practitioner","value":"d1"}},
		"note":[{"text":"Refill when the product runs out."}],
		"dosageInstruction":[{"text":"1-2 capsule, twice per day, 30 days. Take with food.",
			"timing":{"repeat":{"boundsDuration":{"value":30,"unit":"days","system":"http://unitsofmeasure.org","code":"d"},"frequency":2,"period":1,"periodUnit":"d"}},
			"doseAndRate":[{"doseRange":{"low":{"value":1,"unit":"capsule"},"high":{"value":2,"unit":"capsule"}}}]}],
		"dispenseRequest":{"quantity":{"value":180,"unit":"capsules"}}}`, jsonOf(t, mapped(t, chart, plan, magnesium)))
	known, bare := chart, inState("active", treatmentplans.Recommendation{VariantID: "v1"})
	known.Practitioners = map[string]fhir.Reference{"d1": {Reference: "Practitioner/9"}}
	assert.Equal(t, fhir.Reference{Reference: "Practitioner/9"}, mapped(t, known, plan, magnesium).Requester)
	bare.Practitioner.ID, bare.CreatedAt = "", api.Timestamp{}
	assert.NotRegexp(t, `requester|authoredOn|note|dosageInstruction|dispenseRequest`, jsonOf(t, mapped(t, chart, bare, magnesium)), "unknown elements are left out")
	for state, want := range map[treatmentplans.State]string{"draft": "draft", "active": "active", "cancelled": "stopped", "": "unknown", "new": "unknown"} {
		assert.Equal(t, want, mapped(t, chart, inState(state, plan.Recommendations...), magnesium).Status, state)
	}
}

func TestDosageContainsOnlyCertainParts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dosage treatmentplans.Dosage
		want   string
	}{
		{treatmentplans.Dosage{}, `null`},
		{treatmentplans.Dosage{Amount: "1/2", Format: "tablet", Frequency: "every night", Duration: "as needed"}, `[{"text":"1/2 tablet, every night, as needed",
			"timing":{"repeat":{"frequency":1,"period":1,"periodUnit":"d","when":["NIGHT"]}},"doseAndRate":[{"doseQuantity":{"value":0.5,"unit":"tablet"}}]}]`},
		{treatmentplans.Dosage{Frequency: "every morning", Duration: "1 day"}, `[{"text":"every morning, 1 day",
			"timing":{"repeat":{"boundsDuration":{"value":1,"unit":"days","system":"http://unitsofmeasure.org","code":"d"},"frequency":1,"period":1,"periodUnit":"d","when":["MORN"]}}}]`},
		{treatmentplans.Dosage{Amount: "1/3", Format: "packet", Frequency: "every other day"}, `[{"text":"1/3 packet, every other day"}]`},
		{treatmentplans.Dosage{Amount: "1 / 0", Format: "drops"}, `[{"text":"1 / 0 drops"}]`},
		{treatmentplans.Dosage{Amount: "2-1", Format: "capsule", Duration: "ongoing"}, `[{"text":"2-1 capsule, ongoing"}]`},
		{treatmentplans.Dosage{Amount: "1-2-3", Format: "capsule"}, `[{"text":"1-2-3 capsule"}]`},
		{treatmentplans.Dosage{Amount: "0", Format: "capsule"}, `[{"text":"0 capsule"}]`},
		{treatmentplans.Dosage{Amount: "1", Format: "powder"}, `[{"text":"1 powder"}]`},
		{treatmentplans.Dosage{Amount: "1"}, `[{"text":"1"}]`},
		{treatmentplans.Dosage{Amount: " ", AdditionalInfo: "As\x00 told.\n"}, `[{"text":"As told."}]`},
	} {
		row := mapped(t, chart, inState("active", treatmentplans.Recommendation{VariantID: "v1", Dosage: test.dosage}), magnesium)
		assert.JSONEq(t, test.want, jsonOf(t, row.DosageInstruction))
	}
}

func TestMedication(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		units             api.Decimal
		unit, upc         string
		text, total, sold string
		gtin              bool
	}{
		{"90", "capsules", "036000291452", "Own Magnesium, 90 capsules", "270", "capsules", true},
		{"2.50", "fl oz", "4006381333931", "Own Magnesium, 2.5 fl oz", "7.5", "fl oz", true},
		{"", "capsules", "10614141000415", "Own Magnesium", "3", "package", true},
		{"0", "capsules", "036000291453", "Own Magnesium", "3", "package", false},
		{"-1", "capsules", "000000000000", "Own Magnesium", "3", "package", false},
		{"90", " ", "96385074", "Own Magnesium", "3", "package", false},
		{"90", "", "03600029145a", "Own Magnesium", "3", "package", false},
		{"", "", "000036000291452", "Own Magnesium", "3", "package", false},
	} {
		v := *magnesium
		v.Units, v.UnitOfMeasure, v.UPC = test.units, test.unit, test.upc
		row := mapped(t, chart, inState("active", treatmentplans.Recommendation{VariantID: "v1", UnitsToPurchase: 3}), &v)
		assert.Equal(t, test.text, row.MedicationCodeableConcept.Text)
		assert.Equal(t, fhir.Quantity{Value: json.Number(test.total), Unit: test.sold}, row.DispenseRequest.Quantity)
		assert.Equal(t, test.gtin, len(row.MedicationCodeableConcept.Coding) == 2, test.upc)
	}
}

// fhirString is HL7's pattern of a string without space around it, as JavaScript reads it.
var fhirString = regexp.MustCompile(`^[^\s\p{Z}\x{feff}\p{Cc}]([ \t\r\n]|[^\s\p{Z}\x{feff}\p{Cc}])*$`)

func FuzzPlatformText(f *testing.F) {
	for _, text := range []string{"", " \u00a0", "\ufeffD\u2028 3\u0085", "\x00\x1f\x7f", "a\tb\r\n", "\xff", "🧪"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := *magnesium
		v.UnitOfMeasure, v.UPC, v.Product = text, text, &catalog.ProductSummary{Name: "D" + text, Brand: catalog.BrandSummary{Name: text}}
		line := treatmentplans.Recommendation{VariantID: "v1", UnitsToPurchase: 1, Dosage: treatmentplans.Dosage{
			Amount: text, Frequency: treatmentplans.Frequency(text), Duration: treatmentplans.Duration(text), Format: treatmentplans.Format(text), AdditionalInfo: text,
		}}
		requireStrings(t, mapped(t, chart, inState("active", line), &v))
	})
}

// requireStrings fails if FHIR does not allow a string of the rows.
func requireStrings(t *testing.T, rows ...fhir.MedicationRequest) {
	t.Helper()
	tokens := json.NewDecoder(strings.NewReader(jsonOf(t, rows)))
	for token, err := tokens.Token(); err == nil; token, err = tokens.Token() {
		if s, ok := token.(string); ok {
			require.Regexp(t, fhirString, s)
		}
	}
}

func TestWrongIdentitiesAreRejected(t *testing.T) {
	t.Parallel()
	other, nameless, none := plan, plan, plan
	other.Patient.ID, nameless.ID, none.Patient.ID = "8", "", ""
	for _, test := range []struct {
		chart fhir.Chart
		plan  treatmentplans.Plan
		wrong string
	}{
		{fhir.Chart{System: "dispensary", PatientID: "7", Subject: chart.Subject}, plan, "fhir.Chart.System"},
		{fhir.Chart{System: "https://ehr.example/my ehr", PatientID: "7", Subject: chart.Subject}, plan, "fhir.Chart.System"},
		{fhir.Chart{System: chart.System, PatientID: "7"}, plan, "fhir.Chart.Subject"},
		{fhir.Chart{System: chart.System, Subject: chart.Subject}, none, "fhir.Chart.PatientID"},
		{chart, other, "patient.id"}, {chart, nameless, "id"},
	} {
		got, err := test.chart.Requests(test.plan, variants)
		assert.Equal(t, []string{test.wrong}, fields(err))
		assert.Nil(t, got)
		_, err = test.chart.Ended(test.plan, nil)
		assert.Equal(t, []string{test.wrong}, fields(err))
	}
	for _, wrong := range []*catalog.Variant{nil, magnesium, {ID: "v2"}, {ID: "v2", Product: &catalog.ProductSummary{Name: " "}}} {
		got, err := chart.Requests(inState("active", plan.Recommendations[0], treatmentplans.Recommendation{VariantID: "v2"}), map[string]*catalog.Variant{"v1": magnesium, "v2": wrong})
		assert.Equal(t, []string{"recommendations[1].variant_id"}, fields(err))
		assert.Nil(t, got)
	}
}

func TestEnded(t *testing.T) {
	t.Parallel()
	line, other := plan.Recommendations[0], treatmentplans.Recommendation{VariantID: "v2"}
	rows, err := chart.Requests(inState("active", line, line), variants)
	require.NoError(t, err)
	assert.Equal(t, "t1/v1#2", rows[1].Identifier[0].Value)
	rows[0].ID, rows[1].ID = "r1", "r2"
	otherPlan, otherEnvironment, done := rows[0], rows[0], rows[0]
	otherPlan.GroupIdentifier.Value, otherEnvironment.GroupIdentifier.System, done.Status = "t2", "https://ehr.example/dispensary/ca/treatment-plan", "entered-in-error"
	own := fhir.MedicationRequest{ID: "own", Status: "active", Identifier: []fhir.Identifier{{System: "urn:rx", Value: "1"}}}
	ownInGroup := own
	ownInGroup.GroupIdentifier = rows[0].GroupIdentifier
	rows = append(rows, own, ownInGroup, otherPlan, otherEnvironment, done)
	rows[1].Status = "on-hold"
	nameless := []fhir.MedicationRequest{rows[0]}
	nameless[0].ID = ""
	for name, test := range map[string]struct {
		plan        treatmentplans.Plan
		stored      []fhir.MedicationRequest
		want, wrong []string
	}{
		"unchanged":            {inState("active", line, line), rows, nil, nil},
		"one of two removed":   {inState("active", line), rows, []string{"r2"}, nil},
		"replaced":             {inState("active", other), rows, []string{"r1", "r2"}, nil},
		"canceled":             {inState("cancelled"), rows, []string{"r1", "r2"}, nil},
		"canceled, not empty":  {inState("cancelled", line), rows, []string{"r1", "r2"}, nil},
		"empty draft":          {inState("draft"), rows, []string{"r1", "r2"}, nil},
		"incomplete":           {inState("active"), rows, nil, []string{"recommendations"}},
		"incomplete, no state": {inState(""), rows, nil, []string{"recommendations"}},
		"row without ID":       {inState("active", other), nameless, nil, []string{"stored[0].id"}},
	} {
		ended, err := chart.Ended(test.plan, test.stored)
		assert.Equal(t, test.wrong, fields(err), name)
		assert.Equal(t, test.want, ended, name)
	}
}

// TestWorld maps every plan of three clinics, one of which recommends all variants. With
// DISPENSARY_TEST_FHIR, it writes the rows to this file, for the validators of .ci/fhir.
func TestWorld(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 3, Patients: 60, Plans: 120}}))
	vary(t, fake)
	clients, variants := map[string]*dispensary.Client{}, map[string]*catalog.Variant{}
	for _, user := range fake.Users() {
		clients[user.ClinicID] = fake.Client(user)
	}
	states, rows := map[treatmentplans.State]int{}, []fhir.MedicationRequest{}
	for _, p := range fake.Plans.All() {
		plan, err := clients[p.ClinicID].TreatmentPlans.Get(t.Context(), p.ID)
		require.NoError(t, err)
		states[plan.State]++
		for _, r := range plan.Recommendations {
			variants[r.VariantID], err = clients[p.ClinicID].Catalog.Variants.Get(t.Context(), r.VariantID)
			require.NoError(t, err)
		}
		got, err := fhir.Chart{System: chart.System, PatientID: p.PatientID, Subject: fhir.Reference{Reference: "Patient/ehr-" + p.PatientID}}.Requests(*plan, variants)
		require.NoError(t, err)
		rows = append(rows, got...)
	}
	requireStrings(t, rows...)
	assert.Len(t, variants, len(fake.Variants.All()))
	assert.Greater(t, min(len(rows)/20, states[treatmentplans.StateDraft], states[treatmentplans.StateActive], states[treatmentplans.StateCanceled]), 5)
	if file := os.Getenv("DISPENSARY_TEST_FHIR"); file != "" {
		require.NoError(t, os.WriteFile(file, []byte(jsonOf(t, rows)), 0o600))
	}
}

// vary adds active plans, drafts and canceled plans. The first one recommends every variant, some of
// them without a dosage.
func vary(t *testing.T, fake *dispensarytest.Server) {
	t.Helper()
	var lines []model.Recommendation
	for i, v := range fake.Variants.All() {
		line := model.Recommendation{VariantID: v.ID, UnitsToPurchase: 1 + i%3, Refill: i%2 == 0}
		if product, _ := fake.Products.Get(v.ProductID); i%10 != 0 {
			line.Dosage = &product.Dosage
		}
		lines = append(lines, line)
	}
	for i, patient := range fake.Patients.All()[:30] {
		plan, _, err := fake.Plans.Create(patient.ID, model.PlanCreate{Draft: i%3 == 1, Recommendations: lines[i*2:]})
		require.NoError(t, err)
		if i%3 == 2 {
			_, _, err = fake.Plans.Cancel(plan.ID)
			require.NoError(t, err)
		}
	}
}
