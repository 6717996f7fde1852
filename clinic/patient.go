package clinic

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/resource"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Patient is a patient of the clinic.
// It prints as its type and ID: see "Patient data" in package api.
// API section: "Patient".
type Patient struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	// Email is unique across the whole platform.
	Email string `json:"email"`

	DateOfBirth api.Date `json:"date_of_birth"`

	// Gender is empty if unknown.
	Gender Gender `json:"gender"`

	// Discount is the patient's own percentage. TotalDiscount adds the clinic's discount and
	// applies to the patient's orders.
	Discount      float64 `json:"discount"`
	TotalDiscount float64 `json:"total_discount"`

	// MobileNumber is a plus sign and digits, the international form. It is empty if unknown.
	MobileNumber string `json:"mobile_number"`

	// TextMessageNotification reports whether the patient wants text messages.
	TextMessageNotification bool `json:"text_message_notification"`

	Metadata Metadata `json:"metadata"`
}

// Gender is a patient's gender as the platform records it.
type Gender string

// The genders the platform knows.
const (
	GenderMale   Gender = "male"
	GenderFemale Gender = "female"
	GenderX      Gender = "x"
)

// PatientSummary is a patient in lists and searches. [Patients.Get] returns all fields. It
// prints as its type and ID: see "Patient data" in package api.
type PatientSummary struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
	Email     string `json:"email"`
}

// PatientCreate describes a patient to create. It prints as its type and the metadata ID: see
// "Patient data" in package api.
// API section: POST /clinic/patients.
type PatientCreate struct {
	// Email, FirstName and LastName are required. White space alone is blank. If any patient of
	// the platform has this e-mail address, the call fails with [api.ErrValidation].
	Email     string `json:"email"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	DateOfBirth  api.Date `json:"date_of_birth,omitzero"`
	Gender       Gender   `json:"gender,omitempty"`
	MobileNumber string   `json:"mobile_number,omitempty"`
	Discount     float64  `json:"discount,omitempty"`

	// SendWelcomeEmail is whether the platform sends a welcome e-mail. Left out, it sends one.
	// Set it to false if the address may belong to a real person.
	SendWelcomeEmail api.Optional[bool] `json:"send_welcome_email,omitzero"`

	Metadata Metadata `json:"metadata,omitzero"`
}

// PatientUpdate changes a patient. Fields that are left out stay as they are.
// It prints as its type: see "Patient data" in package api.
// API section: PATCH /clinic/patients/<id>.
type PatientUpdate struct {
	Email        api.Optional[string]   `json:"email,omitzero"`
	FirstName    api.Optional[string]   `json:"first_name,omitzero"`
	LastName     api.Optional[string]   `json:"last_name,omitzero"`
	DateOfBirth  api.Optional[api.Date] `json:"date_of_birth,omitzero"`
	Gender       api.Optional[Gender]   `json:"gender,omitzero"`
	MobileNumber api.Optional[string]   `json:"mobile_number,omitzero"`
	Discount     api.Optional[float64]  `json:"discount,omitzero"`
	Metadata     api.Optional[Metadata] `json:"metadata,omitzero"`
}

// Patients calls the patient endpoints. Get it from [Service].
type Patients struct{ t *transport.Client }

// Create adds a patient. If the response is lost, the error matches [api.ErrMaybeApplied]:
// search for the patient before you create it again.
// API section: POST /clinic/patients.
func (s Patients) Create(ctx context.Context, p PatientCreate, options ...api.RequestOption) (*Patient, error) {
	return transport.One[Patient](ctx, s.t, p.create(options))
}

func (p PatientCreate) create(options []api.RequestOption) transport.Call {
	return transport.Call{
		Operation: operation.PatientCreate, Body: p, Options: options,
		Blank: transport.Blank("email", p.Email, "first_name", p.FirstName, "last_name", p.LastName),
	}
}

// Update changes the fields that u sets.
// API section: PATCH /clinic/patients/<id>.
func (s Patients) Update(ctx context.Context, id string, u PatientUpdate, options ...api.RequestOption) (*Patient, error) {
	return transport.One[Patient](ctx, s.t, transport.Call{Operation: operation.PatientUpdate, Path: []string{id}, Body: u, Options: options})
}

// Get returns one patient. An unknown ID matches [api.ErrNotFound].
// API section: GET /clinic/patients/<id>.
func (s Patients) Get(ctx context.Context, id string, options ...api.RequestOption) (*Patient, error) {
	return transport.One[Patient](ctx, s.t, transport.Call{Operation: operation.PatientGet, Path: []string{id}, Options: options})
}

// ByMetadataID returns the patient with your metadata ID. If there is none, the error matches
// [api.ErrNotFound]. If there are several, it is an [*api.EnsureError] with the reason
// [api.EnsureReasonAmbiguous] and the platform's IDs. An empty ID is an [*api.ArgumentError].
// The API does not state how soon a lookup shows a new record.
// API section: GET /clinic/metadata.
func (s Patients) ByMetadataID(ctx context.Context, id string, options ...api.RequestOption) (*Patient, error) {
	return resource.Get[Patient](ctx, s.t, resource.Patient, id, options)
}

// List returns the clinic's patients.
// API section: GET /clinic/patients.
func (s Patients) List(options ...api.RequestOption) *api.List[PatientSummary] {
	return transport.NewList[PatientSummary](s.t, transport.Call{Operation: operation.PatientList, Options: options})
}

// PatientSearchOptions are the conditions of a patient search. It prints as its type: see
// "Patient data" in package api.
// API section: GET /clinic/search/patients.
type PatientSearchOptions struct {
	// Query is matched against first name, last name and e-mail address. An empty query is sent
	// too. Assumption: it matches every patient.
	Query string `url:"query"`
}

// Search returns the patients that match o.
// API section: GET /clinic/search/patients.
func (s Patients) Search(o PatientSearchOptions, options ...api.RequestOption) *api.List[PatientSummary] {
	return transport.NewList[PatientSummary](s.t, transport.Call{Operation: operation.PatientSearch, Query: o, Options: options})
}

// Format prints type and ID only.
func (p Patient) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Patient", p.ID) }

// LogValue logs type and ID only.
func (p Patient) LogValue() slog.Value { return redact.LogValue("clinic.Patient", p.ID) }

// Format prints type and ID only.
func (p PatientSummary) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.PatientSummary", p.ID) }

// LogValue logs type and ID only.
func (p PatientSummary) LogValue() slog.Value { return redact.LogValue("clinic.PatientSummary", p.ID) }

// Format prints the type and the metadata ID only.
func (p PatientCreate) Format(f fmt.State, _ rune) {
	redact.Format(f, "clinic.PatientCreate", p.Metadata.ID)
}

// LogValue logs the type and the metadata ID only.
func (p PatientCreate) LogValue() slog.Value {
	return redact.LogValue("clinic.PatientCreate", p.Metadata.ID)
}

// Format prints the type only.
func (u PatientUpdate) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.PatientUpdate", "") }

// LogValue logs the type only.
func (u PatientUpdate) LogValue() slog.Value { return redact.LogValue("clinic.PatientUpdate", "") }

// Format prints the type only, because the query contains a name or an e-mail address.
func (o PatientSearchOptions) Format(f fmt.State, _ rune) {
	redact.Format(f, "clinic.PatientSearchOptions", "")
}

// LogValue logs the type only.
func (o PatientSearchOptions) LogValue() slog.Value {
	return redact.LogValue("clinic.PatientSearchOptions", "")
}

// Address is an address of a patient.
// It prints as its type and ID: see "Patient data" in package api.
// API section: "Address".
type Address struct {
	ID string `json:"id"`

	// Address1 is the street. Address2 is the apartment, floor or building, or empty if there
	// is none.
	Address1 string `json:"address1"`
	Address2 string `json:"address2"`

	// Zipcode is a ZIP code in the U.S. and a postal code in Canada. State is a state or a
	// province.
	Zipcode string `json:"zipcode"`
	City    string `json:"city"`
	State   string `json:"state"`
	Country string `json:"country"`
}

// Addresses calls the address endpoint. Get it from [Service].
type Addresses struct{ t *transport.Client }

// ListForPatient returns a patient's addresses.
// API section: GET /clinic/patients/<patient_id>/addresses.
func (s Addresses) ListForPatient(patientID string, options ...api.RequestOption) *api.List[Address] {
	return transport.NewList[Address](s.t, transport.Call{Operation: operation.AddressList, Path: []string{patientID}, Options: options})
}

// Format prints type and ID only.
func (a Address) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Address", a.ID) }

// LogValue logs type and ID only.
func (a Address) LogValue() slog.Value { return redact.LogValue("clinic.Address", a.ID) }
