package treatmentplans

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
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
