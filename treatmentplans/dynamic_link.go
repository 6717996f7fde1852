package treatmentplans

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// DynamicLink leads to the platform's own page for a plan, where a practitioner
// completes it. Open RedirectURL in a new tab; do not store or build such
// addresses.
// It prints as its type and the plan's id: see "Patient data" in package api.
// API section: "Dynamic link".
type DynamicLink struct {
	RedirectURL string `json:"redirect_url"`

	// TreatmentPlan holds ID, State and AvailableAt of the plan.
	TreatmentPlan PlanSummary `json:"treatment_plan"`

	// Patient is the plan's patient, without metadata; nil where there is none.
	Patient *clinic.Patient `json:"patient"`
}

// DynamicLinkCreate describes the draft plan behind a new link.
// It prints as its type: see "Patient data" in package api.
// API section: POST /clinic/dynamic_links/treatment_plans.
type DynamicLinkCreate struct {
	// PractitionerID is the practitioner who makes the plan. The API calls only the object
	// that it is in required: that the practitioner whose token it is may leave it
	// out is an assumption, and staff have to name one.
	PractitionerID string

	// Patient is found by its e-mail, or created; nil lets the practitioner
	// choose on the page.
	Patient *DynamicLinkPatient
}

// DynamicLinkPatient is the patient of a new link. Email is required, and white space alone
// is blank; the other fields are assumed to describe a patient that is created.
// It prints as its type: see "Patient data" in package api.
type DynamicLinkPatient struct {
	Email        string        `json:"email"`
	FirstName    string        `json:"first_name,omitempty"`
	LastName     string        `json:"last_name,omitempty"`
	DateOfBirth  api.Date      `json:"date_of_birth,omitzero"`
	Gender       clinic.Gender `json:"gender,omitempty"`
	MobileNumber string        `json:"mobile_number,omitempty"`
	Discount     float64       `json:"discount,omitempty"`

	// SendWelcomeEmail left out means that the platform writes to a patient it
	// creates.
	SendWelcomeEmail api.Optional[bool] `json:"send_welcome_email,omitzero"`
}

// DynamicLinks calls the dynamic link endpoints. Get it from [Service].
type DynamicLinks struct{ t *transport.Client }

// Get returns the link for editing a draft or active plan.
// API section: GET /clinic/dynamic_links/treatment_plans/<treatment_plan_id>.
func (s DynamicLinks) Get(ctx context.Context, planID string, options ...api.RequestOption) (*DynamicLink, error) {
	return transport.One[DynamicLink](ctx, s.t, transport.Call{Operation: operation.DynamicLinkGet, Path: []string{planID}, Options: options})
}

// EmptyPlanURL returns the address of an empty plan. That nothing is created until the
// practitioner saves it is an assumption.
// API section: GET /clinic/dynamic_links/treatment_plans.
func (s DynamicLinks) EmptyPlanURL(ctx context.Context, options ...api.RequestOption) (redirectURL string, err error) {
	type link struct {
		RedirectURL string `json:"redirect_url"`
	}
	l, err := transport.One[link](ctx, s.t, transport.Call{Operation: operation.DynamicLinkNew, Options: options})
	if err != nil {
		return "", err
	}
	return l.RedirectURL, nil
}

// Create makes a draft plan, finds or creates its patient, and returns the link
// to complete it. It needs the scope clinic:write, and patients:write where it
// creates the patient.
// API section: POST /clinic/dynamic_links/treatment_plans.
func (s DynamicLinks) Create(ctx context.Context, n DynamicLinkCreate, options ...api.RequestOption) (*DynamicLink, error) {
	var blank []string
	if n.Patient != nil {
		blank = transport.Blank("patient.email", n.Patient.Email)
	}
	type plan struct {
		PractitionerID string `json:"practitioner_id,omitempty"`
	}
	body := struct {
		TreatmentPlan plan                `json:"treatment_plan"`
		Patient       *DynamicLinkPatient `json:"patient,omitempty"`
	}{plan{n.PractitionerID}, n.Patient}
	return transport.One[DynamicLink](ctx, s.t, transport.Call{Operation: operation.DynamicLinkCreate, Body: body, Blank: blank, Options: options})
}

// Format prints the type and the plan's id only: the address alone allows
// editing the plan.
func (l DynamicLink) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.DynamicLink", l.TreatmentPlan.ID)
}

// LogValue logs the type and the plan's id only.
func (l DynamicLink) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.DynamicLink", l.TreatmentPlan.ID)
}

// Format prints the type only.
func (n DynamicLinkCreate) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.DynamicLinkCreate", "")
}

// LogValue logs the type only.
func (n DynamicLinkCreate) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.DynamicLinkCreate", "")
}

// Format prints the type only.
func (p DynamicLinkPatient) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.DynamicLinkPatient", "")
}

// LogValue logs the type only.
func (p DynamicLinkPatient) LogValue() slog.Value {
	return redact.LogValue("treatmentplans.DynamicLinkPatient", "")
}
