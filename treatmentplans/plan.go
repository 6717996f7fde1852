package treatmentplans

import (
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/redact"
)

// Plan is a treatment plan. Lists tell less: see [Summary].
// API section: "Treatment plan".
type Plan struct {
	ID           string `json:"id"`
	State        State  `json:"state"`
	Patient      Ref    `json:"patient"`
	Practitioner Ref    `json:"practitioner"`

	// AvailableAt is when the plan was sent to the patient; zero for a draft.
	// The platform tells the date only.
	AvailableAt api.Timestamp `json:"available_at"`

	CreatedAt api.Timestamp `json:"created_at"`
	UpdatedAt api.Timestamp `json:"updated_at"`

	// InvitationURL is where the patient sees the plan. Whoever has it can see
	// the plan: treat it as a secret.
	InvitationURL string `json:"invitation_url"`

	PersonalMessage string `json:"personal_message"`

	// Recommendations is empty after a cancellation.
	Recommendations []Recommendation `json:"recommendations"`

	Metadata clinic.Metadata `json:"metadata"`
}

// State is the state of a plan. Values that are not listed here may come.
type State string

// The states: a draft is activated, an active plan is cancelled.
// API section: "States and transitions".
const (
	Draft     State = "draft"
	Active    State = "active"
	Cancelled State = "cancelled"
)

// Ref names another record by its id.
type Ref struct {
	ID string `json:"id"`
}

// Summary is what lists tell of a plan.
type Summary struct {
	ID           string        `json:"id"`
	State        State         `json:"state"`
	Patient      Ref           `json:"patient"`
	Practitioner Ref           `json:"practitioner"`
	AvailableAt  api.Timestamp `json:"available_at"`
	CreatedAt    api.Timestamp `json:"created_at"`
	UpdatedAt    api.Timestamp `json:"updated_at"`
}

// New describes a plan to create.
// API section: POST /clinic/patients/<patient_id>/treatment_plans.
type New struct {
	// PractitionerID and Recommendations are required.
	PractitionerID  string           `json:"practitioner_id"`
	Recommendations []Recommendation `json:"recommendations"`

	PersonalMessage string `json:"personal_message,omitempty"`

	// State is Draft or Active. Left empty the platform makes the plan active:
	// it is sent to the patient at once.
	State State `json:"state,omitempty"`

	Metadata clinic.Metadata `json:"metadata,omitzero"`
}

// Update changes a plan. Recommendations is required and replaces the plan's
// own; the other fields stay as they are where they are left out.
// API section: PATCH /clinic/treatment_plans/<id>.
type Update struct {
	Recommendations []Recommendation              `json:"recommendations"`
	PersonalMessage api.Optional[string]          `json:"personal_message,omitzero"`
	Metadata        api.Optional[clinic.Metadata] `json:"metadata,omitzero"`
}

// Checkout is a page where the plan's patient pays in the office.
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
func (s Summary) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Summary", s.ID) }

// LogValue logs type and id only.
func (s Summary) LogValue() slog.Value { return redact.LogValue("treatmentplans.Summary", s.ID) }

// Format prints the type and the integrator's id only.
func (n New) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.New", n.Metadata.ID) }

// LogValue logs the type and the integrator's id only.
func (n New) LogValue() slog.Value { return redact.LogValue("treatmentplans.New", n.Metadata.ID) }

// Format prints the type only.
func (u Update) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Update", "") }

// LogValue logs the type only.
func (u Update) LogValue() slog.Value { return redact.LogValue("treatmentplans.Update", "") }

// Format prints the type only: whoever has the address can pay.
func (c Checkout) Format(f fmt.State, _ rune) { redact.Format(f, "treatmentplans.Checkout", "") }

// LogValue logs the type only.
func (c Checkout) LogValue() slog.Value { return redact.LogValue("treatmentplans.Checkout", "") }
