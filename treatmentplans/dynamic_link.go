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

// DynamicLink is a link to the platform's own page for a plan, where a practitioner completes
// it. Open RedirectURL in a new tab. Do not store or build such URLs. It prints as its type
// and the plan's ID: see "Patient data" in package api.
// API section: "Dynamic link".
type DynamicLink struct {
	RedirectURL string `json:"redirect_url"`

	// TreatmentPlan contains the ID, State and AvailableAt of the plan.
	TreatmentPlan PlanSummary `json:"treatment_plan"`

	// Patient is the plan's patient without metadata, or nil if there is none.
	Patient *clinic.Patient `json:"patient"`
}

// DynamicLinkCreate describes the draft plan behind a new link.
// It prints as its type: see "Patient data" in package api.
// API section: POST /clinic/dynamic_links/treatment_plans.
type DynamicLinkCreate struct {
	// PractitionerID is the practitioner who creates the plan. Assumption: you can leave it out
	// if the token belongs to that practitioner, and must set it for a token of staff. The API
	// requires only the object that contains it.
	PractitionerID string

	// Patient is the patient to find by e-mail address or to create. Nil lets the practitioner
	// choose on the page.
	Patient *DynamicLinkPatient
}

// DynamicLinkPatient is the patient of a new link. Email is required, and white space alone is
// blank. Assumption: the other fields describe a patient to create. It prints as its type: see
// "Patient data" in package api.
type DynamicLinkPatient struct {
	Email        string        `json:"email"`
	FirstName    string        `json:"first_name,omitempty"`
	LastName     string        `json:"last_name,omitempty"`
	DateOfBirth  api.Date      `json:"date_of_birth,omitzero"`
	Gender       clinic.Gender `json:"gender,omitempty"`
	MobileNumber string        `json:"mobile_number,omitempty"`
	Discount     float64       `json:"discount,omitempty"`

	// SendWelcomeEmail is whether the platform sends a welcome e-mail to a patient it creates.
	// Left out, it sends one.
	SendWelcomeEmail api.Optional[bool] `json:"send_welcome_email,omitzero"`
}

// DynamicLinks calls the dynamic link endpoints. Get it from [Service].
type DynamicLinks struct{ t *transport.Client }

// Get returns the link for editing a draft or active plan.
// API section: GET /clinic/dynamic_links/treatment_plans/<treatment_plan_id>.
func (s DynamicLinks) Get(ctx context.Context, planID string, options ...api.RequestOption) (*DynamicLink, error) {
	return transport.One[DynamicLink](ctx, s.t, transport.Call{Operation: operation.DynamicLinkGet, Path: []string{planID}, Options: options})
}

// EmptyPlanURL returns the URL of an empty plan. Assumption: the platform creates nothing
// until the practitioner saves the plan.
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

// Create creates a draft plan, finds or creates its patient, and returns the link to complete
// it. It needs the scope clinic:write, and also patients:write if it creates the patient.
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

// Format prints only the type and the plan's ID, because the URL alone allows editing the
// plan.
func (l DynamicLink) Format(f fmt.State, _ rune) {
	redact.Format(f, "treatmentplans.DynamicLink", l.TreatmentPlan.ID)
}

// LogValue logs the type and the plan's ID only.
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
