package treatmentplans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Protocol is a reusable treatment plan. Lists return only ID, Name, CurrentState and
// OwnershipType. [Protocols.Get] returns the other fields. It prints as its type and ID: see
// "Patient data" in package api.
// API section: "Protocol".
type Protocol struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	CurrentState State  `json:"current_state"`

	// OwnershipType is set only in lists.
	OwnershipType Ownership `json:"ownership_type"`

	Practitioner    PersonRef                `json:"practitioner"`
	PersonalMessage string                   `json:"personal_message"`
	Recommendations []ProtocolRecommendation `json:"recommendations"`
}

// Ownership is the relation of a practitioner to a protocol. The platform may add values.
type Ownership string

// The kinds of ownership: created by the practitioner, or shared with them. OwnershipAny is
// for filters only. Assumption: values other than "owned", because the API shows no other.
const (
	OwnershipOwned  Ownership = "owned"
	OwnershipShared Ownership = "shared"
	OwnershipAny    Ownership = "all"
)

// ProtocolRecommendation is one product of a protocol or template.
// API section: "Protocol" (recommendations).
type ProtocolRecommendation struct {
	VariantID           string    `json:"variant_id"`
	Refill              bool      `json:"refill"`
	DosageAmount        string    `json:"dosage_amount"`
	DosageFrequency     Frequency `json:"dosage_frequency"`
	DosageDuration      Duration  `json:"dosage_duration"` // empty if none is set
	DosagePermutations  string    `json:"dosage_permutations"`
	DosageFormat        Format    `json:"dosage_format"`
	QuantityRecommended int       `json:"quantity_recommended"`
}

// Dosage returns the dosage of the recommendation in a plan. DosagePermutations has no field
// in a plan, see [Protocol.NewPlan].
func (r ProtocolRecommendation) Dosage() Dosage {
	return Dosage{Amount: r.DosageAmount, Frequency: r.DosageFrequency, Duration: r.DosageDuration, Format: r.DosageFormat}
}

// Protocols calls the protocol endpoints. Get it from [Service].
type Protocols struct{ t *transport.Client }

// Get returns one protocol with its recommendations. An unknown ID matches
// [api.ErrNotFound].
// API section: GET /clinic/protocols/<id>.
func (s Protocols) Get(ctx context.Context, id string, options ...api.RequestOption) (*Protocol, error) {
	return transport.One[Protocol](ctx, s.t, transport.Call{Operation: operation.ProtocolGet, Path: []string{id}, Options: options})
}

// ProtocolListOptions filter and sort a practitioner's protocols.
// API section: GET /clinic/practitioners/<practitioner_id>/protocols.
type ProtocolListOptions struct {
	CurrentState State `url:"current_state,omitempty"`

	// OwnershipType filters by ownership (assumption: the API does not list this parameter).
	OwnershipType Ownership `url:"ownership_type,omitempty"`

	// SortBy is the field to sort by. Empty means the platform's own order.
	SortBy    ProtocolSort  `url:"sort_by,omitempty"`
	SortOrder api.SortOrder `url:"order_by,omitempty"`
}

// ProtocolSort is a sort field of protocols.
type ProtocolSort string

// The sort fields of protocols.
const (
	ProtocolSortName  ProtocolSort = "name"
	ProtocolSortState ProtocolSort = "current_state"
)

// ListForPractitioner returns a practitioner's protocols.
// API section: GET /clinic/practitioners/<practitioner_id>/protocols.
func (s Protocols) ListForPractitioner(practitionerID string, o ProtocolListOptions, options ...api.RequestOption) *api.List[Protocol] {
	return transport.NewList[Protocol](s.t, transport.Call{Operation: operation.ProtocolList, Path: []string{practitionerID}, Query: o, Options: options})
}

// Format prints type and ID only.
func (p Protocol) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Protocol", p.ID) }

// LogValue logs type and ID only.
func (p Protocol) LogValue() slog.Value { return redact.LogValue("treatmentplans.Protocol", p.ID) }

// PlanChoices contains the choices that a plan needs in addition to its protocol. See
// [Protocol.NewPlan]. It prints as its type and the metadata ID: see "Patient data" in package
// api.
type PlanChoices struct {
	// PractitionerID is the practitioner who creates the plan. It is required. The protocol's
	// own practitioner wrote the protocol and may only have shared it.
	PractitionerID string

	// State is the state of the plan, as in [PlanCreate]. If it is empty, the platform makes
	// the plan active and sends it to the patient at once.
	State State

	// PersonalMessage is the message of the plan. Left out, it is the protocol's message. Null
	// means no message.
	PersonalMessage api.Optional[string]

	Metadata clinic.Metadata

	// PermutationsAsInfo copies the protocol's DosagePermutations to AdditionalInfo for each
	// recommendation without an AdditionalInfo in its [RecommendationChoice].
	PermutationsAsInfo bool

	// Recommendations are the choices for the protocol's recommendations, in the same order.
	// The list may be shorter.
	Recommendations []RecommendationChoice
}

// RecommendationChoice contains the choices that one recommendation of a protocol leaves open.
// It prints as its type: see "Patient data" in package api.
type RecommendationChoice struct {
	// Omit leaves the product out of the plan, for example because it is unavailable.
	Omit bool

	// UnitsToPurchase is the number of packages to buy. 0 means the protocol's
	// QuantityRecommended. If that is 0 too, UnitsToPurchase must be positive.
	UnitsToPurchase int

	// AdditionalInfo is the plan's instruction in addition to amount, frequency, duration and
	// format. Null means no instruction. It must be set or null if the protocol has
	// DosagePermutations.
	AdditionalInfo api.Optional[string]
}

// NewPlan returns a plan from the protocol, for [Service.Create] or [Service.Ensure]. It sends
// nothing. First get the protocol with [Protocols.Get], because protocols in lists have no
// recommendations. Afterwards call [Service.CheckAvailable]. The plan contains the protocol's
// recommendations in their order, without the omitted ones. You can change them.
//
// Assumptions, because the API does not document the conversion of a protocol to a plan:
//   - QuantityRecommended becomes UnitsToPurchase. If it is 0 or less, you must choose a
//     number.
//   - DosageAmount, DosageFrequency, DosageDuration and DosageFormat become the [Dosage]
//     fields of the same names, unchanged. An empty duration is left out.
//   - DosagePermutations has no field in a plan. An observed value is "with food". The
//     practitioner must choose to drop it or to copy it to Dosage.AdditionalInfo. NewPlan does
//     neither by default and never splits it.
//   - Refill and VariantID have the same meaning in both.
//   - CurrentState has no effect, because the platform does not learn of the protocol. To
//     offer only active protocols, filter the list with [ProtocolListOptions].
//
// A missing choice is an [*api.ArgumentError], or [api.ArgumentErrors] for several. They use
// the plan's JSON names with the positions in the protocol: "practitioner_id",
// "recommendations[1].units_to_purchase", "recommendations[0].dosage.additional_info".
// [PlanChoices.ProblemOf] reads them.
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

// ProblemOf returns the problem of an error like [api.ProblemOf], for the form with the
// choices. Fields always have the positions in the protocol. The errors of
// [Service.CheckAvailable], [Service.Create] and [Service.Ensure] have positions in the plan,
// which lacks the omitted recommendations. Messages name the field of a recommendation without
// its position: "Units to purchase must be a whole number above 0".
func (c PlanChoices) ProblemOf(err error) *api.Problem {
	p := api.ProblemOf(err)
	if p == nil || len(p.Fields) == 0 {
		return p
	}
	var argument *api.ArgumentError // from NewPlan: the call itself rejects no argument with a position
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
			if rest, ok := strings.CutPrefix(message, hidden.Label(field)); ok {
				message = hidden.Label(inner[strings.LastIndex(inner, ".")+1:]) + rest
			}
			moved[at] = append(moved[at], message)
		}
	}
	p.Fields = moved
	return p
}

// recommendationField splits a field such as "recommendations[1].dosage.format".
func recommendationField(field string) (position int, inner string, ok bool) {
	rest, ok := strings.CutPrefix(field, "recommendations[")
	number, inner, found := strings.Cut(rest, "].")
	position, err := strconv.Atoi(number)
	return position, inner, ok && found && err == nil
}

// ofProtocol returns the protocol position for a position in the plan.
func (c PlanChoices) ofProtocol(position int) int {
	for i, choice := range c.Recommendations {
		if i <= position && choice.Omit {
			position++
		}
	}
	return position
}

// decide returns the plan's recommendation, and the choices that are still missing.
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

// Format prints the type and the metadata ID only.
func (c PlanChoices) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.PlanChoices", c.Metadata.ID)
}

// LogValue logs the type and the metadata ID only.
func (c PlanChoices) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.PlanChoices", c.Metadata.ID)
}

// Format prints the type only, because the additional information is free text.
func (c RecommendationChoice) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.RecommendationChoice", "")
}

// LogValue logs the type only.
func (c RecommendationChoice) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.RecommendationChoice", "")
}

// Template is the former name of a protocol. Lists return only ID, Name and CurrentState. It
// prints as its type and ID: see "Patient data" in package api.
//
// Deprecated: the platform has replaced templates by protocols. Use [Protocol].
// API section: "Protocol" (template), "Versioning" 5.
type Template struct {
	ID              string                   `json:"id"`
	Name            string                   `json:"name"`
	CurrentState    State                    `json:"current_state"`
	PractitionerID  string                   `json:"practitioner_id"`
	PersonalMessage string                   `json:"personal_message"`
	Recommendations []ProtocolRecommendation `json:"recommendations"`
}

// Templates calls the template endpoints.
//
// Deprecated: use [Protocols].
type Templates struct{ t *transport.Client }

// Get returns one template with its recommendations.
//
// Deprecated: use [Protocols.Get].
// API section: GET /clinic/templates/<id>.
func (s Templates) Get(ctx context.Context, id string, options ...api.RequestOption) (*Template, error) {
	return transport.One[Template](ctx, s.t, transport.Call{Operation: operation.TemplateGet, Path: []string{id}, Options: options})
}

// ListForPractitioner returns a practitioner's templates.
//
// Deprecated: use [Protocols.ListForPractitioner].
// API section: GET /clinic/practitioners/<practitioner_id>/templates.
func (s Templates) ListForPractitioner(practitionerID string, options ...api.RequestOption) *api.List[Template] {
	return transport.NewList[Template](s.t, transport.Call{Operation: operation.TemplateList, Path: []string{practitionerID}, Options: options})
}

// Format prints type and ID only.
func (t Template) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Template", t.ID) }

// LogValue logs type and ID only.
func (t Template) LogValue() slog.Value { return redact.LogValue("treatmentplans.Template", t.ID) }
