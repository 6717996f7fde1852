package treatmentplans_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func sleepProtocol() *treatmentplans.Protocol {
	return &treatmentplans.Protocol{
		ID: "p1", Name: "Better Sleep", PersonalMessage: "Start early.", Practitioner: treatmentplans.PersonRef{ID: "author"},
		Recommendations: []treatmentplans.ProtocolRecommendation{
			{VariantID: "v1", Refill: true, DosageAmount: "1-2", DosageFrequency: "once per day", DosageFormat: "capsule", DosagePermutations: "with food", QuantityRecommended: 2},
			{VariantID: "v2", DosageAmount: "1/2", DosageDuration: "30"},
		},
	}
}

func TestFromProtocol(t *testing.T) {
	t.Parallel()
	plan, err := treatmentplans.FromProtocol(sleepProtocol(), treatmentplans.PlanChoices{
		PractitionerID: "prescriber", State: treatmentplans.StateDraft, Metadata: clinic.Metadata{ID: "ehr-7"},
		Recommendations: []treatmentplans.RecommendationChoice{{AdditionalInfo: api.Value[string]("with breakfast")}, {UnitsToPurchase: 3}},
	})
	require.NoError(t, err)
	assert.EqualExportedValues(t, treatmentplans.NewPlan{
		PractitionerID: "prescriber", State: treatmentplans.StateDraft, PersonalMessage: "Start early.", Metadata: clinic.Metadata{ID: "ehr-7"},
		Recommendations: []treatmentplans.Recommendation{
			{VariantID: "v1", Refill: true, UnitsToPurchase: 2, Dosage: treatmentplans.Dosage{Amount: "1-2", Frequency: "once per day", Format: "capsule", AdditionalInfo: "with breakfast"}},
			{VariantID: "v2", UnitsToPurchase: 3, Dosage: treatmentplans.Dosage{Amount: "1/2", Duration: "30"}},
		},
	}, plan)
}

func TestFromProtocolNamesWhatHasToBeChosen(t *testing.T) {
	t.Parallel()
	info := "recommendations[0].dosage.additional_info"
	type choices = treatmentplans.PlanChoices
	type lines = []treatmentplans.RecommendationChoice
	for name, test := range map[string]struct {
		change  func(*treatmentplans.Protocol)
		choices choices
		fields  []string
	}{
		"nothing chosen":         {nil, choices{}, []string{"practitioner_id", info, "recommendations[1].units_to_purchase"}},
		"a blank practitioner":   {nil, choices{PractitionerID: " ", PermutationsAsInfo: true, Recommendations: lines{{}, {Omit: true}}}, []string{"practitioner_id"}},
		"permutations":           {nil, choices{PractitionerID: "x", Recommendations: lines{{}, {UnitsToPurchase: 1}}}, []string{info}},
		"permutations, by rule":  {nil, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {UnitsToPurchase: 1}}}, nil},
		"permutations, dropped":  {nil, choices{PractitionerID: "x", Recommendations: lines{{AdditionalInfo: api.Null[string]()}, {Omit: true}}}, nil},
		"what is omitted":        {nil, choices{PractitionerID: "x", Recommendations: lines{{Omit: true}, {UnitsToPurchase: 1}}}, nil},
		"everything omitted":     {nil, choices{PractitionerID: "x", Recommendations: lines{{Omit: true}, {Omit: true}}}, []string{"recommendations"}},
		"fewer than none":        {nil, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{UnitsToPurchase: -1}, {UnitsToPurchase: 1}}}, []string{"recommendations[0].units_to_purchase"}},
		"more than there are":    {nil, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {UnitsToPurchase: 1}, {}, {Omit: true}}}, []string{"recommendations[2]", "recommendations[3]"}},
		"a protocol of a list":   {func(p *treatmentplans.Protocol) { p.Recommendations = nil }, choices{PractitionerID: "x"}, []string{"recommendations"}},
		"a quantity below none":  {func(p *treatmentplans.Protocol) { p.Recommendations[0].QuantityRecommended = -2 }, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {Omit: true}}}, []string{"recommendations[0].units_to_purchase"}},
		"a variant that is none": {func(p *treatmentplans.Protocol) { p.Recommendations[0].VariantID = "" }, choices{PractitionerID: "x", PermutationsAsInfo: true, Recommendations: lines{{}, {Omit: true}}}, []string{"recommendations[0].variant_id"}},
	} {
		protocol := sleepProtocol()
		if test.change != nil {
			test.change(protocol)
		}
		plan, err := treatmentplans.FromProtocol(protocol, test.choices)
		if test.fields == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, api.ErrInvalidArgument, name)
		assert.EqualExportedValues(t, treatmentplans.NewPlan{}, plan, name)
		assert.ElementsMatch(t, test.fields, keys(api.FieldErrors(err)), name)
		assert.NotContains(t, err.Error(), "with food", name)
	}
	_, err := treatmentplans.FromProtocol(nil, choices{})
	assert.EqualError(t, err, "dispensary: treatment_plans.create: protocol is nil")
}

func keys(fields map[string][]string) []string {
	var all []string
	for field := range fields {
		all = append(all, field)
	}
	return all
}

// Whatever a protocol and the choices are: the plan that the platform makes of them has
// what was chosen, else what the protocol says, and nothing of the protocol is lost; or
// the error names each thing to choose, and choosing these is enough.
func TestPlansFromProtocols(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		b := start(t, dispensarytest.WithSeed(seed))
		dice := rand.New(rand.NewPCG(seed, 1))
		for _, protocol := range append(b.protocols(t), b.madeUp(dice, 10)...) {
			choices := b.choose(dice, len(protocol.Recommendations))
			before := api.FieldErrors(second(treatmentplans.FromProtocol(protocol, choices)))
			for i := range protocol.Recommendations {
				line := &choices.Recommendations[i]
				path := "recommendations[" + strconv.Itoa(i) + "]"
				if before[path+".units_to_purchase"] != nil {
					line.UnitsToPurchase = 1 + dice.IntN(3)
				}
				if before[path+".dosage.additional_info"] != nil {
					line.AdditionalInfo = api.Value[string]("chosen")
				}
			}
			plan, err := treatmentplans.FromProtocol(protocol, choices)
			if before["recommendations"] != nil {
				require.Error(t, err, "everything is omitted")
				continue
			}
			require.NoError(t, err)
			require.NoError(t, b.CheckAvailable(t.Context(), plan.Recommendations))
			created, err := b.Create(t.Context(), b.patient, plan)
			require.NoError(t, err)
			b.requireChosen(t, protocol, choices, created)
		}
		b.Journal().CheckNoUnexpected(t)
	}
}

func second[A, B any](_ A, b B) B { return b }

// protocols are the platform's own, shared ones included.
func (b *bench) protocols(t *testing.T) (all []*treatmentplans.Protocol) {
	t.Helper()
	options := treatmentplans.ProtocolListOptions{OwnershipType: treatmentplans.AnyOwner}
	for _, listed := range resourcetest.Collect(t, b.Service.Protocols.All(t.Context(), b.practitioner, options)) {
		protocol, err := b.Service.Protocols.Get(t.Context(), listed.ID)
		require.NoError(t, err)
		all = append(all, protocol)
	}
	require.NotEmpty(t, all)
	return all
}

// madeUp are protocols of the platform's variants, with some of everything left out.
func (b *bench) madeUp(dice *rand.Rand, n int) (all []*treatmentplans.Protocol) {
	var variants []string
	for _, product := range b.Products.All() {
		if variant, _ := b.Products.Variant(product.VariantIDs[0]); variant.Status == "available" {
			variants = append(variants, variant.ID)
		}
	}
	text := func(of ...string) string { return of[dice.IntN(len(of))] }
	for range n {
		protocol := &treatmentplans.Protocol{PersonalMessage: string(text("", "Take care."))}
		for range 1 + dice.IntN(5) {
			protocol.Recommendations = append(protocol.Recommendations, treatmentplans.ProtocolRecommendation{
				VariantID: variants[dice.IntN(len(variants))], Refill: dice.IntN(2) == 0, QuantityRecommended: dice.IntN(4),
				DosageAmount: text("", "1-2", "1/2", "½"), DosageFrequency: text("", treatmentplans.EveryNight), DosageDuration: text("", "30", treatmentplans.AsNeeded),
				DosageFormat: text("", treatmentplans.Capsule), DosagePermutations: text("", "with food", "a, b; c"),
			})
		}
		all = append(all, protocol)
	}
	return all
}

func (b *bench) choose(dice *rand.Rand, n int) treatmentplans.PlanChoices {
	choices := treatmentplans.PlanChoices{
		PractitionerID: b.practitioner, State: []treatmentplans.State{"", treatmentplans.StateDraft}[dice.IntN(2)], PermutationsAsInfo: dice.IntN(2) == 0,
		PersonalMessage: []api.Optional[string]{{}, api.Null[string](), api.Value("Mine.")}[dice.IntN(3)], Metadata: clinic.Metadata{ID: strconv.Itoa(dice.IntN(1000))},
	}
	for range n {
		choices.Recommendations = append(choices.Recommendations, treatmentplans.RecommendationChoice{
			Omit: dice.IntN(4) == 0, UnitsToPurchase: dice.IntN(3), AdditionalInfo: []api.Optional[string]{{}, api.Null[string](), api.Value[string]("mine")}[dice.IntN(3)],
		})
	}
	return choices
}

// requireChosen holds a plan of the platform against what it was made of.
func (b *bench) requireChosen(t *testing.T, protocol *treatmentplans.Protocol, choices treatmentplans.PlanChoices, plan *treatmentplans.Plan) {
	t.Helper()
	assert.Equal(t, choices.PractitionerID, plan.Practitioner.ID)
	assert.Equal(t, choices.Metadata, plan.Metadata)
	assert.Equal(t, choices.State == treatmentplans.StateDraft, plan.State == treatmentplans.StateDraft)
	message, _ := choices.PersonalMessage.Get()
	if choices.PersonalMessage.IsZero() {
		message = protocol.PersonalMessage
	}
	assert.Equal(t, message, plan.PersonalMessage)
	left := plan.Recommendations
	for i, line := range protocol.Recommendations {
		choice := choices.Recommendations[i]
		if choice.Omit {
			continue
		}
		require.NotEmpty(t, left)
		made := left[0]
		left = left[1:]
		assert.Equal(t, line.VariantID, made.VariantID)
		assert.Equal(t, line.Refill, made.Refill)
		units := choice.UnitsToPurchase
		if units == 0 {
			units = line.QuantityRecommended
		}
		assert.Equal(t, units, made.UnitsToPurchase)
		info, _ := choice.AdditionalInfo.Get()
		if choice.AdditionalInfo.IsZero() {
			info = line.DosagePermutations // by the rule; it is empty where nothing had to be chosen
		}
		assert.Equal(t, treatmentplans.Dosage{
			Amount: line.DosageAmount, Frequency: line.DosageFrequency, Duration: line.DosageDuration, Format: line.DosageFormat, AdditionalInfo: info,
		}, made.Dosage)
	}
	assert.Empty(t, left)
}

// A form shows what is wrong beside the lines of the protocol, also where the plan has
// fewer of them.
func TestErrorsHaveThePositionsOfTheProtocol(t *testing.T) {
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
		"of the platform": {lines{{Omit: true}, {Omit: true}}, api.NewError(api.Error{StatusCode: 422}, nil, nil, []api.Message{
			{Field: "recommendations[0].dosage.format", Text: "Recommendations[0].dosage.format is odd"}, {Field: "recommendations[1].variant_id", Text: "This cannot be had"},
			{Field: "recommendations[x].variant_id", Text: "What is x"},
		}), map[string][]string{
			"recommendations[2].dosage.format": {"Format is odd"}, "recommendations[3].variant_id": {"This cannot be had"}, "recommendations[x].variant_id": {"What is x"},
		}},
	} {
		choices := treatmentplans.PlanChoices{PractitionerID: "prescriber", Recommendations: test.lines}
		if name == "before the plan" {
			_, test.err = treatmentplans.FromProtocol(sleepProtocol(), choices)
			require.Error(t, test.err)
		}
		assert.Equal(t, test.want, choices.FieldErrors(test.err), name)
	}
}
