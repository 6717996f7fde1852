package treatmentplans

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/redact"
)

// Plan is a treatment plan. Lists return less: see [PlanSummary].
// It prints as its type and id: see "Patient data" in package api.
// API section: "Treatment plan".
type Plan struct {
	ID           string    `json:"id"`
	State        State     `json:"state"`
	Patient      PersonRef `json:"patient"`
	Practitioner PersonRef `json:"practitioner"`

	// AvailableAt is when the plan was sent to the patient; zero for a draft.
	// The platform gives the date only.
	AvailableAt api.Timestamp `json:"available_at"`

	CreatedAt api.Timestamp `json:"created_at"`
	UpdatedAt api.Timestamp `json:"updated_at"`

	// InvitationURL is where the patient sees the plan. Anyone who has it can
	// see the plan: treat it as a secret.
	InvitationURL string `json:"invitation_url"`

	PersonalMessage string `json:"personal_message"`

	// Recommendations is empty after a cancellation.
	Recommendations []Recommendation `json:"recommendations"`

	Metadata clinic.Metadata `json:"metadata"`
}

// State is the state of a plan. Values that are not listed here may come.
type State string

// The states: a draft is activated, an active plan is canceled.
// API section: "States and transitions".
const (
	StateDraft    State = "draft"
	StateActive   State = "active"
	StateCanceled State = "cancelled"
)

// PersonRef is a patient or a practitioner by id.
type PersonRef struct {
	ID string `json:"id"`
}

// PlanSummary is what lists return of a plan.
// It prints as its type and id: see "Patient data" in package api.
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
// It prints as its type and the metadata id: see "Patient data" in package api.
// API section: POST /clinic/patients/<patient_id>/treatment_plans.
type PlanCreate struct {
	// PractitionerID and Recommendations are required: white space alone, and a list of
	// nothing, are blank. What a recommendation lacks is the platform's to say.
	PractitionerID  string           `json:"practitioner_id"`
	Recommendations []Recommendation `json:"recommendations"`

	PersonalMessage string `json:"personal_message,omitempty"`

	// State is StateDraft or StateActive. Left empty the platform makes the plan active:
	// it is sent to the patient at once.
	State State `json:"state,omitempty"`

	Metadata clinic.Metadata `json:"metadata,omitzero"`
}

// PlanUpdate changes a plan. Recommendations is required (nil is blank; whether a plan
// can be left with an empty list is the platform's to say) and replaces the plan's
// own; the other fields stay as they are where they are left out.
// It prints as its type: see "Patient data" in package api.
// API section: PATCH /clinic/treatment_plans/<id>.
type PlanUpdate struct {
	Recommendations []Recommendation              `json:"recommendations"`
	PersonalMessage api.Optional[string]          `json:"personal_message,omitzero"`
	Metadata        api.Optional[clinic.Metadata] `json:"metadata,omitzero"`
}

// Checkout is a page where the plan's patient pays in the office.
// It prints as its type: see "Patient data" in package api.
// API section: "In-office checkout".
type Checkout struct {
	// URL is to be opened, not stored or built.
	URL string `json:"url"`
}

// Format prints type and id only.
func (p Plan) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Plan", p.ID) }

// LogValue logs type and id only.
func (p Plan) LogValue() slog.Value { return redact.LogValue("treatmentplans.Plan", p.ID) }

// Format prints type and id only.
func (s PlanSummary) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.PlanSummary", s.ID)
}

// LogValue logs type and id only.
func (s PlanSummary) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.PlanSummary", s.ID)
}

// Format prints the type and the integrator's id only.
func (n PlanCreate) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.PlanCreate", n.Metadata.ID)
}

// LogValue logs the type and the integrator's id only.
func (n PlanCreate) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.PlanCreate", n.Metadata.ID)
}

// Format prints the type only.
func (u PlanUpdate) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.PlanUpdate", "") }

// LogValue logs the type only.
func (u PlanUpdate) LogValue() slog.Value { return redact.LogValue("treatmentplans.PlanUpdate", "") }

// Format prints the type only: the address alone allows paying.
func (c Checkout) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Checkout", "") }

// LogValue logs the type only.
func (c Checkout) LogValue() slog.Value { return redact.LogValue("treatmentplans.Checkout", "") }
