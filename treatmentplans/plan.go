package treatmentplans

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/redact"
)

// Plan is a treatment plan. Lists return a [PlanSummary]. It prints as its type and ID: see
// "Patient data" in package api.
// API section: "Treatment plan".
type Plan struct {
	ID           string    `json:"id"`
	State        State     `json:"state"`
	Patient      PersonRef `json:"patient"`
	Practitioner PersonRef `json:"practitioner"`

	// AvailableAt is the time at which the plan was sent to the patient, or zero for a draft.
	// The platform provides only the date.
	AvailableAt api.Timestamp `json:"available_at"`

	CreatedAt api.Timestamp `json:"created_at"`
	UpdatedAt api.Timestamp `json:"updated_at"`

	// InvitationURL is the patient's page for the plan. Anyone with this URL can see the plan,
	// so treat it as a secret.
	InvitationURL string `json:"invitation_url"`

	PersonalMessage string `json:"personal_message"`

	// Recommendations is empty after a cancellation.
	Recommendations []Recommendation `json:"recommendations"`

	Metadata clinic.Metadata `json:"metadata"`
}

// State is the state of a plan. The platform may add values.
type State string

// The states. A draft can be activated, and an active plan can be canceled.
// API section: "States and transitions".
const (
	StateDraft    State = "draft"
	StateActive   State = "active"
	StateCanceled State = "cancelled"
)

// PersonRef refers to a patient or a practitioner by ID.
type PersonRef struct {
	ID string `json:"id"`
}

// PlanSummary is a plan in a list. It prints as its type and ID: see "Patient data" in package
// api.
type PlanSummary struct {
	ID           string        `json:"id"`
	State        State         `json:"state"`
	Patient      PersonRef     `json:"patient"`
	Practitioner PersonRef     `json:"practitioner"`
	AvailableAt  api.Timestamp `json:"available_at"`
	CreatedAt    api.Timestamp `json:"created_at"`
	UpdatedAt    api.Timestamp `json:"updated_at"`
}

// PlanCreate describes a plan to create.
// It prints as its type and the metadata ID: see "Patient data" in package api.
// API section: POST /clinic/patients/<patient_id>/treatment_plans.
type PlanCreate struct {
	// PractitionerID and Recommendations are required. White space alone and an empty list are
	// blank. The platform decides which fields a recommendation needs.
	PractitionerID  string           `json:"practitioner_id"`
	Recommendations []Recommendation `json:"recommendations"`

	PersonalMessage string `json:"personal_message,omitempty"`

	// State is StateDraft or StateActive. If it is empty, the platform makes the plan active
	// and sends it to the patient at once.
	State State `json:"state,omitempty"`

	Metadata clinic.Metadata `json:"metadata,omitzero"`
}

// PlanUpdate changes a plan. Recommendations is required and replaces the plan's own. Nil is
// blank. The platform decides whether it accepts an empty list. Other fields stay as they are
// if they are left out. It prints as its type: see "Patient data" in package api.
// API section: PATCH /clinic/treatment_plans/<id>.
type PlanUpdate struct {
	Recommendations []Recommendation              `json:"recommendations"`
	PersonalMessage api.Optional[string]          `json:"personal_message,omitzero"`
	Metadata        api.Optional[clinic.Metadata] `json:"metadata,omitzero"`
}

// Checkout is a page for the plan's patient to pay in the office. It prints as its type: see
// "Patient data" in package api.
// API section: "In-office checkout".
type Checkout struct {
	// URL is the URL to open. Do not store or build it.
	URL string `json:"url"`
}

// Format prints type and ID only.
func (p Plan) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Plan", p.ID) }

// LogValue logs type and ID only.
func (p Plan) LogValue() slog.Value { return redact.LogValue("treatmentplans.Plan", p.ID) }

// Format prints type and ID only.
func (s PlanSummary) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.PlanSummary", s.ID)
}

// LogValue logs type and ID only.
func (s PlanSummary) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.PlanSummary", s.ID)
}

// Format prints the type and the metadata ID only.
func (n PlanCreate) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.PlanCreate", n.Metadata.ID)
}

// LogValue logs the type and the metadata ID only.
func (n PlanCreate) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.PlanCreate", n.Metadata.ID)
}

// Format prints the type only.
func (u PlanUpdate) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.PlanUpdate", "") }

// LogValue logs the type only.
func (u PlanUpdate) LogValue() slog.Value { return redact.LogValue("treatmentplans.PlanUpdate", "") }

// Format prints the type only, because the URL alone allows paying.
func (c Checkout) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Checkout", "") }

// LogValue logs the type only.
func (c Checkout) LogValue() slog.Value { return redact.LogValue("treatmentplans.Checkout", "") }

// Recommendation is one product of a plan with its dosage. Assumption: VariantID and
// UnitsToPurchase are required. The API does not list the required fields. It prints as its
// type and the variant's ID: see "Patient data" in package api.
// API section: "Treatment plan" (recommendations).
type Recommendation struct {
	VariantID string `json:"variant_id"`

	// Refill reports whether the patient should order again when the product runs out.
	Refill bool `json:"refill"`

	// UnitsToPurchase is the number of packages to buy.
	UnitsToPurchase int `json:"units_to_purchase"`

	Dosage Dosage `json:"dosage,omitzero"`

	// Unknown contains members that the platform has added since this release. [Service.Update]
	// writes them back, because it replaces all recommendations. They are not part of the JSON
	// of a Recommendation.
	Unknown UnknownMembers `json:"-" unknown:"keep"`
}

// Dosage is the instruction for taking a product. Every field is free text for the platform,
// and is sent and read unchanged. A Dosage also reads the names that events use:
// recommended_amount, recommended_frequency and recommended_duration. It prints as its type:
// see "Patient data" in package api.
type Dosage struct {
	// Amount is a number, a range or a fraction: "1", "1-2", "1/2".
	Amount string `json:"amount,omitempty" alias:"recommended_amount"`

	Frequency Frequency `json:"frequency,omitempty" alias:"recommended_frequency"`

	Duration Duration `json:"duration,omitempty" alias:"recommended_duration"`

	Format         Format `json:"format,omitempty"`
	AdditionalInfo string `json:"additional_info,omitempty"`

	// Unknown contains members that the platform has added, as in [Recommendation].
	Unknown UnknownMembers `json:"-" unknown:"keep"`
}

// DosageOf converts a dosage of the catalog for a recommendation. It returns the zero Dosage
// for nil. To prefer the practitioner's own dosage to the manufacturer's, write
//
//	treatmentplans.DosageOf(cmp.Or(product.CustomDosage, product.Dosage))
func DosageOf(d *catalog.Dosage) Dosage {
	if d == nil {
		return Dosage{}
	}
	return Dosage{
		Amount: d.Amount, Frequency: Frequency(d.Frequency), Duration: Duration(d.Duration), Format: Format(d.Format), AdditionalInfo: d.AdditionalInfo,
	}
}

// Frequency is the text for how often to take a product.
type Frequency string

// Observed frequencies (assumption: the API lists none).
const (
	FrequencyOncePerDay       Frequency = "once per day"
	FrequencyTwicePerDay      Frequency = "twice per day"
	FrequencyThreeTimesPerDay Frequency = "three times per day"
	FrequencyFourTimesPerDay  Frequency = "four times per day"
	FrequencyEveryMorning     Frequency = "every morning"
	FrequencyEveryNight       Frequency = "every night"
)

// Duration is the text for how long to take a product: a number of days, such as "30", or
// words.
type Duration string

// Observed durations (assumption: the API lists none).
const (
	DurationAsNeeded             Duration = "as needed"
	DurationUntilSymptomsResolve Duration = "until symptoms resolve"
	DurationOngoing              Duration = "ongoing"
)

// Format is the form of a product as text.
type Format string

// Observed formats (assumption: the API lists none).
const (
	FormatCapsule     Format = "capsule"
	FormatChewable    Format = "chewable"
	FormatGel         Format = "gel"
	FormatLiquid      Format = "liquid"
	FormatLozenge     Format = "lozenge"
	FormatPacket      Format = "packet"
	FormatPellet      Format = "pellet"
	FormatDrops       Format = "drops"
	FormatPowder      Format = "powder"
	FormatStrip       Format = "strip"
	FormatSuppository Format = "suppository"
	FormatTablet      Format = "tablet"
)

// Format prints only the type and the variant's ID.
func (r Recommendation) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.Recommendation", r.VariantID)
}

// LogValue returns only the type and the variant's ID.
func (r Recommendation) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.Recommendation", r.VariantID)
}

// String returns the type only, because the additional information is free text and may
// concern the patient. A Format method would cover numeric verbs too, but a field has that
// name.
func (d Dosage) String() string { return "treatmentplans.Dosage()" }

// GoString returns the type only.
func (d Dosage) GoString() string { return d.String() }

// LogValue logs the type only.
func (d Dosage) LogValue() slog.Value { return redact.LogValue("treatmentplans.Dosage", "") }

// UnknownMembers contains members of a JSON object, without its braces. It prints only their
// length.
type UnknownMembers string

// Format prints the length, for every verb.
func (m UnknownMembers) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, m.length()) }

// LogValue returns the length.
func (m UnknownMembers) LogValue() slog.Value { return slog.StringValue(m.length()) }

func (m UnknownMembers) length() string { return fmt.Sprintf("%d bytes", len(m)) }

// appendTo appends the members to an encoded object.
func (m UnknownMembers) appendTo(object []byte) []byte {
	if m == "" {
		return object
	}
	object = object[:len(object)-1]
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(object, m...), '}')
}

// body returns the body of an update. Few plans have unknown members, and only those need the
// slower encoding.
func (u PlanUpdate) body() any {
	known := true
	for _, r := range u.Recommendations {
		known = known && r.Unknown == "" && r.Dosage.Unknown == ""
	}
	if known {
		return u
	}
	body := updateBody{PersonalMessage: u.PersonalMessage, Metadata: u.Metadata}
	for _, r := range u.Recommendations {
		body.Recommendations = append(body.Recommendations, updateLine{r})
	}
	return body
}

// updateBody is a [PlanUpdate] that writes unknown members.
type updateBody struct {
	Recommendations []updateLine                  `json:"recommendations"`
	PersonalMessage api.Optional[string]          `json:"personal_message,omitzero"`
	Metadata        api.Optional[clinic.Metadata] `json:"metadata,omitzero"`
}

// updateLine embeds the recommendation, so that its fields are checked by name.
type updateLine struct{ Recommendation }

// MarshalJSON writes the recommendation and its dosage with their unknown members.
func (l updateLine) MarshalJSON() ([]byte, error) {
	line := struct {
		Recommendation
		Dosage json.RawMessage `json:"dosage,omitempty"` // shadows the embedded field
	}{Recommendation: l.Recommendation}
	if l.Dosage != (Dosage{}) {
		dosage, err := json.Marshal(l.Dosage)
		if err != nil {
			return nil, err
		}
		line.Dosage = l.Dosage.Unknown.appendTo(dosage)
	}
	object, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	return l.Unknown.appendTo(object), nil
}
