package treatmentplans_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestProtocolRecommendationKeepsDuration(t *testing.T) {
	t.Parallel()
	var line treatmentplans.ProtocolRecommendation
	require.NoError(t, json.Unmarshal([]byte(`{"dosage_duration":"30"}`), &line))
	assert.Equal(t, treatmentplans.ProtocolRecommendation{DosageDuration: "30"}, line)
}

func sleepProtocol() *treatmentplans.Protocol {
	return &treatmentplans.Protocol{
		ID: "p1", Name: "Better Sleep", PersonalMessage: "Start early.", Practitioner: treatmentplans.PersonRef{ID: "author"},
		Recommendations: []treatmentplans.ProtocolRecommendation{
			{VariantID: "v1", Refill: true, DosageAmount: "1-2", DosageFrequency: "once per day", DosageFormat: "capsule", DosagePermutations: "with food", QuantityRecommended: 2},
			{VariantID: "v2", DosageAmount: "1/2", DosageDuration: "30"},
		},
	}
}

func TestNewPlanAppliesChoices(t *testing.T) {
	t.Parallel()
	plan, err := sleepProtocol().NewPlan(treatmentplans.PlanChoices{
		PractitionerID: "prescriber", State: treatmentplans.StateDraft, Metadata: clinic.Metadata{ID: "ehr-7"},
		Recommendations: []treatmentplans.RecommendationChoice{{AdditionalInfo: api.Value[string]("with breakfast")}, {UnitsToPurchase: 3}},
	})
	require.NoError(t, err)
	assert.EqualExportedValues(t, treatmentplans.PlanCreate{
		PractitionerID: "prescriber", State: treatmentplans.StateDraft, PersonalMessage: "Start early.", Metadata: clinic.Metadata{ID: "ehr-7"},
		Recommendations: []treatmentplans.Recommendation{
			{VariantID: "v1", Refill: true, UnitsToPurchase: 2, Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: "once per day", Format: "capsule", AdditionalInfo: "with breakfast"}},
			{VariantID: "v2", UnitsToPurchase: 3, Dosage: treatmentplans.Dosage{Amount: "1/2", Duration: "30"}},
		},
	}, plan)

	for want, message := range map[string]api.Optional[string]{"": api.Null[string](), "Mine.": api.Value("Mine.")} {
		plan, err := sleepProtocol().NewPlan(treatmentplans.PlanChoices{
			PractitionerID: "prescriber", PersonalMessage: message, PermutationsAsInfo: true,
			Recommendations: []treatmentplans.RecommendationChoice{{UnitsToPurchase: 5}, {Omit: true}},
		})
		require.NoError(t, err)
		assert.Equal(t, want, plan.PersonalMessage)
		require.Len(t, plan.Recommendations, 1)
		assert.Equal(t, "with food", plan.Recommendations[0].Dosage.AdditionalInfo)
		assert.Equal(t, 5, plan.Recommendations[0].UnitsToPurchase, "the choice must override the protocol's quantity")
	}

	plan, err = sleepProtocol().NewPlan(treatmentplans.PlanChoices{
		PractitionerID: "prescriber", Recommendations: []treatmentplans.RecommendationChoice{{Omit: true}, {UnitsToPurchase: 3}},
	})
	require.NoError(t, err)
	assert.Equal(t, []treatmentplans.Recommendation{
		{VariantID: "v2", UnitsToPurchase: 3, Dosage: treatmentplans.Dosage{Amount: "1/2", Duration: "30"}},
	}, plan.Recommendations, "each choice must apply to its own line")
}

func TestNewPlanNamesMissingChoices(t *testing.T) {
	t.Parallel()
	info := "recommendations[0].dosage.additional_info"
	type choices = treatmentplans.PlanChoices
	type lines = []treatmentplans.RecommendationChoice
	for name, test := range map[string]struct {
		change  func(*treatmentplans.Protocol)
		choices choices
		fields  []string
	}{
		"no choices":            {nil, choices{}, []string{"practitioner_id", info, "recommendations[1].units_to_purchase"}},
		"blank practitioner":    {nil, choices{PractitionerID: " ", PermutationsAsInfo: true, Recommendations: lines{{}, {Omit: true}}}, []string{"practitioner_id"}},
		"permutations":          {nil, choices{PractitionerID: "x", Recommendations: lines{{}, {UnitsToPurchase: 1}}}, []string{info}},
		"permutations, by rule": {nil, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {UnitsToPurchase: 1}}}, nil},
		"permutations, dropped": {nil, choices{PractitionerID: "x", Recommendations: lines{{AdditionalInfo: api.Null[string]()}, {Omit: true}}}, nil},
		"first omitted":         {nil, choices{PractitionerID: "x", Recommendations: lines{{Omit: true}, {UnitsToPurchase: 1}}}, nil},
		"all omitted":           {nil, choices{PractitionerID: "x", Recommendations: lines{{Omit: true}, {Omit: true}}}, []string{"recommendations"}},
		"negative units":        {nil, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{UnitsToPurchase: -1}, {UnitsToPurchase: 1}}}, []string{"recommendations[0].units_to_purchase"}},
		"too many choices":      {nil, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {UnitsToPurchase: 1}, {}, {Omit: true}}}, []string{"recommendations[2]", "recommendations[3]"}},
		"protocol of a list":    {func(p *treatmentplans.Protocol) { p.Recommendations = nil }, choices{PractitionerID: "x"}, []string{"recommendations"}},
		"negative quantity":     {func(p *treatmentplans.Protocol) { p.Recommendations[0].QuantityRecommended = -2 }, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {Omit: true}}}, []string{"recommendations[0].units_to_purchase"}},
		"blank variant":         {func(p *treatmentplans.Protocol) { p.Recommendations[0].VariantID = "" }, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {Omit: true}}}, []string{"recommendations[0].variant_id"}},
	} {
		protocol := sleepProtocol()
		if test.change != nil {
			test.change(protocol)
		}
		plan, err := protocol.NewPlan(test.choices)
		if test.fields == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, api.ErrArgument, name)
		assert.EqualExportedValues(t, treatmentplans.PlanCreate{}, plan, name)
		assert.ElementsMatch(t, test.fields, keys(api.ProblemOf(err).Fields), name)
		assert.NotContains(t, err.Error(), "with food", name)
	}
}

// fieldsOf returns the fields of a problem, or nil without a problem.
func fieldsOf(p *api.Problem) map[string][]string {
	if p == nil {
		return nil
	}
	return p.Fields
}

func keys(fields map[string][]string) []string {
	var all []string
	for field := range fields {
		all = append(all, field)
	}
	return all
}

// A form shows errors beside the lines of the protocol, even if the plan has fewer lines.
func TestProblemUsesProtocolPositions(t *testing.T) {
	t.Parallel()
	type lines = []treatmentplans.RecommendationChoice
	info := api.Value[string]("with food")
	for name, test := range map[string]struct {
		lines lines
		err   error
		want  map[string][]string
	}{
		"nothing":              {lines{{Omit: true}}, nil, nil},
		"not about the input":  {lines{{Omit: true}}, api.ErrNotFound, nil},
		"of no recommendation": {lines{{Omit: true}}, &api.ArgumentError{Field: "practitioner_id", Reason: "is odd"}, map[string][]string{"practitioner_id": {"Practitioner is odd"}}},
		"before the plan": {lines{{Omit: true}, {AdditionalInfo: info, UnitsToPurchase: -1}}, nil, map[string][]string{
			"recommendations[1].units_to_purchase": {"Units to purchase must be a whole number above 0"},
		}},
		"of the plan": {lines{{Omit: true}, {}, {Omit: true}, {Omit: true}}, &treatmentplans.UnavailableError{Variants: []treatmentplans.UnavailableVariant{
			{Position: 0, VariantID: "v2", Unknown: true}, {Position: 1, VariantID: "v5", Status: "backordered"},
		}}, map[string][]string{
			"recommendations[1].variant_id": {"Variant is not in the catalog"}, "recommendations[4].variant_id": {"Variant is backordered"},
		}},
		"of the platform": {lines{{Omit: true}, {Omit: true}}, apikit.NewError(api.Error{StatusCode: 422}, nil, nil, []hidden.Message{
			{Field: "recommendations[0].dosage.format", Text: "Recommendations[0].dosage.format is odd"}, {Field: "recommendations[1].variant_id", Text: "This cannot be had"},
			{Field: "recommendations[x].variant_id", Text: "What is x"},
		}), map[string][]string{
			"recommendations[2].dosage.format": {"Format is odd"}, "recommendations[3].variant_id": {"This cannot be had"}, "recommendations[x].variant_id": {"What is x"},
		}},
	} {
		choices := treatmentplans.PlanChoices{PractitionerID: "prescriber", Recommendations: test.lines}
		if name == "before the plan" {
			_, test.err = sleepProtocol().NewPlan(choices)
			require.Error(t, test.err)
		}
		assert.Equal(t, test.want, fieldsOf(choices.ProblemOf(test.err)), name)
	}
}
