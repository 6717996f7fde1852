package treatmentplans

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// PlanChoices is what a plan needs beyond its protocol; see [Protocol.NewPlan].
// It prints as its type and the metadata id: see "Patient data" in package api.
type PlanChoices struct {
	// PractitionerID is who makes the plan. It is required: the protocol's own
	// practitioner wrote it, and may only have shared it.
	PractitionerID string

	// State, as in [PlanCreate]: left empty the platform makes the plan active, and
	// sends it to the patient at once.
	State State

	// PersonalMessage left out is the protocol's; null is none.
	PersonalMessage api.Optional[string]

	Metadata clinic.Metadata

	// PermutationsAsInfo takes the protocol's DosagePermutations as AdditionalInfo
	// wherever no [RecommendationChoice] decides.
	PermutationsAsInfo bool

	// Recommendations are choices for the protocol's recommendations, in their order.
	// It may be shorter.
	Recommendations []RecommendationChoice
}

// RecommendationChoice decides what a recommendation of a protocol leaves open.
// It prints as its type: see "Patient data" in package api.
type RecommendationChoice struct {
	// Omit leaves the product out of the plan, for example because it is not available.
	Omit bool

	// UnitsToPurchase is how many packages to buy; 0 is the protocol's
	// QuantityRecommended, and has to be more where that is 0.
	UnitsToPurchase int

	// AdditionalInfo is what the plan says of how to take the product beside amount,
	// frequency, duration and format; null is nothing. It has to be chosen where the
	// protocol has DosagePermutations.
	AdditionalInfo api.Optional[string]
}

// NewPlan returns the plan that the protocol describes, for [Service.Create] or
// [Service.Ensure]. It calls nothing: get the protocol with [Protocols.Get] first (those
// of lists have no recommendations), and ask [Service.CheckAvailable] afterwards. The
// plan's recommendations are the protocol's in their order, less those that are
// omitted; change them as you like.
//
// The API does not say how a protocol becomes a plan. These are assumptions:
//   - QuantityRecommended is UnitsToPurchase. Where it is 0, or less, a number has to be
//     chosen.
//   - DosageAmount, DosageFrequency, DosageDuration and DosageFormat are the fields of
//     [Dosage] with these names, word for word. An empty duration is left out.
//   - DosagePermutations, of which "with food" is seen, has no field in a plan. The
//     practitioner has to choose what becomes of it: it is neither dropped nor copied
//     unasked, and never taken apart. Dosage.AdditionalInfo is where it can go.
//   - Refill and VariantID mean the same in both.
//   - CurrentState does not matter: the platform never learns of the protocol. Narrow
//     the list with [ProtocolListOptions] to offer active ones only.
//
// What has to be chosen first is an [*api.ArgumentError], or [api.ArgumentErrors] for
// several, by the plan's JSON names with the positions of the protocol:
// "practitioner_id", "recommendations[1].units_to_purchase",
// "recommendations[0].dosage.additional_info". [PlanChoices.ProblemOf] reads them.
// API section: "Protocol (formerly template)", POST /clinic/patients/<patient_id>/treatment_plans.
func (p Protocol) NewPlan(choices PlanChoices) (PlanCreate, error) {
	var wrong api.ArgumentErrors
	for _, field := range transport.Blank("practitioner_id", choices.PractitionerID) {
		wrong = append(wrong, wrongChoice(field, "can't be blank"))
	}
	plan := PlanCreate{
		PractitionerID: choices.PractitionerID, State: choices.State, Metadata: choices.Metadata, PersonalMessage: p.PersonalMessage,
	}
	if !choices.PersonalMessage.IsZero() {
		plan.PersonalMessage, _ = choices.PersonalMessage.Get()
	}
	for i, line := range p.Recommendations {
		var choice RecommendationChoice
		if i < len(choices.Recommendations) {
			choice = choices.Recommendations[i]
		}
		if choice.Omit {
			continue
		}
		if choice.AdditionalInfo.IsZero() && choices.PermutationsAsInfo {
			choice.AdditionalInfo = api.Value(line.DosagePermutations)
		}
		recommendation, undecided := line.decide(choice, "recommendations["+strconv.Itoa(i)+"]")
		plan.Recommendations, wrong = append(plan.Recommendations, recommendation), append(wrong, undecided...)
	}
	if len(plan.Recommendations) == 0 {
		wrong = append(wrong, wrongChoice("recommendations", "can't be blank"))
	}
	for i := len(p.Recommendations); i < len(choices.Recommendations); i++ {
		wrong = append(wrong, wrongChoice("recommendations["+strconv.Itoa(i)+"]", "is not in the protocol"))
	}
	if err := wrong.Err(); err != nil {
		return PlanCreate{}, err
	}
	return plan, nil
}

// ProblemOf returns the problem of an error as [api.ProblemOf] does, for the form that the
// choices came from. Fields always have the positions of the protocol. The errors of
// [Service.CheckAvailable], [Service.Create] and [Service.Ensure] have those of the plan, which
// lacks the omitted recommendations. Messages name the field of a recommendation without its
// position: "Units to purchase must be a whole number above 0".
func (c PlanChoices) ProblemOf(err error) *api.Problem {
	p := api.ProblemOf(err)
	if p == nil || len(p.Fields) == 0 {
		return p
	}
	var argument *api.ArgumentError // of NewPlan: the call itself rejects no argument with a position
	ofProtocol := errors.As(err, &argument) && argument.Operation == operation.TreatmentPlanCreate.Name
	moved := map[string][]string{}
	for field, messages := range p.Fields {
		position, inner, ok := recommendationField(field)
		if !ok {
			moved[field] = messages
			continue
		}
		if !ofProtocol {
			position = c.ofProtocol(position)
		}
		at := "recommendations[" + strconv.Itoa(position) + "]." + inner
		for _, message := range messages {
			if rest, ok := strings.CutPrefix(message, detail.Label(field)); ok {
				message = detail.Label(inner[strings.LastIndex(inner, ".")+1:]) + rest
			}
			moved[at] = append(moved[at], message)
		}
	}
	p.Fields = moved
	return p
}

// recommendationField takes apart "recommendations[1].dosage.format".
func recommendationField(field string) (position int, inner string, ok bool) {
	rest, ok := strings.CutPrefix(field, "recommendations[")
	number, inner, found := strings.Cut(rest, "].")
	position, err := strconv.Atoi(number)
	return position, inner, ok && found && err == nil
}

// ofProtocol returns the position in the protocol of a plan's recommendation.
func (c PlanChoices) ofProtocol(position int) int {
	for i, choice := range c.Recommendations {
		if i <= position && choice.Omit {
			position++
		}
	}
	return position
}

// decide makes a recommendation of a plan, and reports what is left to choose.
func (r ProtocolRecommendation) decide(choice RecommendationChoice, path string) (made Recommendation, wrong api.ArgumentErrors) {
	units := choice.UnitsToPurchase
	if units == 0 {
		units = r.QuantityRecommended
	}
	for _, field := range transport.Blank(path+".variant_id", r.VariantID) {
		wrong = append(wrong, wrongChoice(field, "can't be blank"))
	}
	switch {
	case choice.UnitsToPurchase < 0:
		wrong = append(wrong, wrongChoice(path+".units_to_purchase", "must be a whole number above 0"))
	case units <= 0:
		wrong = append(wrong, wrongChoice(path+".units_to_purchase", "has to be chosen: the protocol recommends no quantity"))
	}
	if r.DosagePermutations != "" && choice.AdditionalInfo.IsZero() {
		wrong = append(wrong, wrongChoice(path+".dosage.additional_info", "has to be chosen: the protocol has dosage permutations"))
	}
	dosage := r.Dosage()
	dosage.AdditionalInfo, _ = choice.AdditionalInfo.Get()
	return Recommendation{VariantID: r.VariantID, Refill: r.Refill, UnitsToPurchase: units, Dosage: dosage}, wrong
}

func wrongChoice(field, reason string) *api.ArgumentError {
	return &api.ArgumentError{Operation: operation.TreatmentPlanCreate.Name, Field: field, Reason: reason}
}

// Format prints the type and the integrator's id only.
func (c PlanChoices) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.PlanChoices", c.Metadata.ID)
}

// LogValue logs the type and the integrator's id only.
func (c PlanChoices) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.PlanChoices", c.Metadata.ID)
}

// Format prints the type only: the additional information is free text.
func (c RecommendationChoice) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.RecommendationChoice", "")
}

// LogValue logs the type only.
func (c RecommendationChoice) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.RecommendationChoice", "")
}
