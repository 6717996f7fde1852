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

// Practitioner is a practitioner of the clinic.
// It prints as its type and ID: see "Patient data" in package api.
// API section: "Practitioner".
type Practitioner struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	// Email is unique.
	Email string `json:"email"`

	// PractitionerTypeID is one of the catalog's practitioner types.
	PractitionerTypeID string `json:"practitioner_type_id"`

	Metadata Metadata `json:"metadata"`
}

// PractitionerCreate describes a practitioner to create.
// It prints as its type and the metadata ID: see "Patient data" in package api.
// API section: POST /clinic/practitioners.
type PractitionerCreate struct {
	// All fields except Metadata are required. White space alone is blank. If the e-mail
	// address is not new to the platform, the call fails with [api.ErrValidation].
	PractitionerTypeID string `json:"practitioner_type_id"`
	Email              string `json:"email"`
	FirstName          string `json:"first_name"`
	LastName           string `json:"last_name"`

	Metadata Metadata `json:"metadata,omitzero"`
}

// PractitionerUpdate changes a practitioner. Fields that are left out stay as they are.
// It prints as its type: see "Patient data" in package api.
// API section: PATCH /clinic/practitioners/<id>.
type PractitionerUpdate struct {
	PractitionerTypeID api.Optional[string]   `json:"practitioner_type_id,omitzero"`
	Email              api.Optional[string]   `json:"email,omitzero"`
	FirstName          api.Optional[string]   `json:"first_name,omitzero"`
	LastName           api.Optional[string]   `json:"last_name,omitzero"`
	Metadata           api.Optional[Metadata] `json:"metadata,omitzero"`
}

// Practitioners calls the practitioner endpoints. Get it from [Service].
type Practitioners struct{ t *transport.Client }

// Create adds a practitioner. If the response is lost, the error matches
// [api.ErrMaybeApplied]: search for the practitioner before you create it again.
// API section: POST /clinic/practitioners.
func (s Practitioners) Create(ctx context.Context, n PractitionerCreate, options ...api.RequestOption) (*Practitioner, error) {
	return transport.One[Practitioner](ctx, s.t, n.create(options))
}

func (n PractitionerCreate) create(options []api.RequestOption) transport.Call {
	return transport.Call{
		Operation: operation.PractitionerCreate, Body: n, Options: options,
		Blank: transport.Blank("practitioner_type_id", n.PractitionerTypeID, "email", n.Email, "first_name", n.FirstName, "last_name", n.LastName),
	}
}

// Update changes the fields that u sets.
// API section: PATCH /clinic/practitioners/<id>.
func (s Practitioners) Update(ctx context.Context, id string, u PractitionerUpdate, options ...api.RequestOption) (*Practitioner, error) {
	return transport.One[Practitioner](ctx, s.t, transport.Call{Operation: operation.PractitionerUpdate, Path: []string{id}, Body: u, Options: options})
}

// Get returns one practitioner. An unknown ID matches [api.ErrNotFound].
// API section: GET /clinic/practitioners/<id>.
func (s Practitioners) Get(ctx context.Context, id string, options ...api.RequestOption) (*Practitioner, error) {
	return transport.One[Practitioner](ctx, s.t, transport.Call{Operation: operation.PractitionerGet, Path: []string{id}, Options: options})
}

// ByMetadataID returns the practitioner with your metadata ID. If there is none, the error
// matches [api.ErrNotFound]. If there are several, it is an [*api.EnsureError] with the reason
// [api.EnsureReasonAmbiguous] and the platform's IDs. An empty ID is an [*api.ArgumentError].
// The API does not state how soon a lookup shows a new record.
// API section: GET /clinic/metadata.
func (s Practitioners) ByMetadataID(ctx context.Context, id string, options ...api.RequestOption) (*Practitioner, error) {
	return resource.Get[Practitioner](ctx, s.t, resource.Practitioner, id, options)
}

// List returns the clinic's practitioners.
// API section: GET /clinic/practitioners.
func (s Practitioners) List(options ...api.RequestOption) *api.List[Practitioner] {
	return transport.NewList[Practitioner](s.t, transport.Call{Operation: operation.PractitionerList, Options: options})
}

// Format prints type and ID only.
func (p Practitioner) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Practitioner", p.ID) }

// LogValue logs type and ID only.
func (p Practitioner) LogValue() slog.Value { return redact.LogValue("clinic.Practitioner", p.ID) }

// Format prints the type and the metadata ID only.
func (n PractitionerCreate) Format(f fmt.State, _ rune) {
	redact.Format(f, "clinic.PractitionerCreate", n.Metadata.ID)
}

// LogValue logs the type and the metadata ID only.
func (n PractitionerCreate) LogValue() slog.Value {
	return redact.LogValue("clinic.PractitionerCreate", n.Metadata.ID)
}

// Format prints the type only.
func (u PractitionerUpdate) Format(f fmt.State, _ rune) {
	redact.Format(f, "clinic.PractitionerUpdate", "")
}

// LogValue logs the type only.
func (u PractitionerUpdate) LogValue() slog.Value {
	return redact.LogValue("clinic.PractitionerUpdate", "")
}

// StaffMember is a member of the clinic's office staff.
// It prints as its type and ID: see "Patient data" in package api.
// API section: "Staff".
type StaffMember struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	// Email is unique (assumption: the API does not describe the fields of staff).
	Email string `json:"email"`

	Metadata Metadata `json:"metadata"`
}

// StaffMemberCreate describes a staff member to create.
// It prints as its type and the metadata ID: see "Patient data" in package api.
// API section: POST /clinic/staff.
type StaffMemberCreate struct {
	// All fields except Metadata are required, and white space alone is blank (assumption: the
	// API lists no arguments).
	Email     string `json:"email"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	Metadata Metadata `json:"metadata,omitzero"`
}

// StaffMemberUpdate changes a staff member. Fields that are left out stay as they are.
// It prints as its type: see "Patient data" in package api.
// API section: PATCH /clinic/staff/<id>.
type StaffMemberUpdate struct {
	Email     api.Optional[string]   `json:"email,omitzero"`
	FirstName api.Optional[string]   `json:"first_name,omitzero"`
	LastName  api.Optional[string]   `json:"last_name,omitzero"`
	Metadata  api.Optional[Metadata] `json:"metadata,omitzero"`
}

// Staff calls the staff endpoints. Get it from [Service].
type Staff struct{ t *transport.Client }

// Create adds a staff member. If the response is lost, the error matches
// [api.ErrMaybeApplied]: search for the staff member before you create it again.
// API section: POST /clinic/staff.
func (s Staff) Create(ctx context.Context, n StaffMemberCreate, options ...api.RequestOption) (*StaffMember, error) {
	return transport.One[StaffMember](ctx, s.t, n.create(options))
}

func (n StaffMemberCreate) create(options []api.RequestOption) transport.Call {
	return transport.Call{
		Operation: operation.StaffCreate, Body: n, Options: options,
		Blank: transport.Blank("email", n.Email, "first_name", n.FirstName, "last_name", n.LastName),
	}
}

// Update changes the fields that u sets.
// API section: PATCH /clinic/staff/<id>.
func (s Staff) Update(ctx context.Context, id string, u StaffMemberUpdate, options ...api.RequestOption) (*StaffMember, error) {
	return transport.One[StaffMember](ctx, s.t, transport.Call{Operation: operation.StaffUpdate, Path: []string{id}, Body: u, Options: options})
}

// Get returns one staff member. An unknown ID matches [api.ErrNotFound].
// API section: GET /clinic/staff/<id>.
func (s Staff) Get(ctx context.Context, id string, options ...api.RequestOption) (*StaffMember, error) {
	return transport.One[StaffMember](ctx, s.t, transport.Call{Operation: operation.StaffGet, Path: []string{id}, Options: options})
}

// ByMetadataID returns the staff member with your metadata ID. If there is none, the error
// matches [api.ErrNotFound]. If there are several, it is an [*api.EnsureError] with the reason
// [api.EnsureReasonAmbiguous] and the platform's IDs. An empty ID is an [*api.ArgumentError].
// The API does not state how soon a lookup shows a new record.
// API section: GET /clinic/metadata.
func (s Staff) ByMetadataID(ctx context.Context, id string, options ...api.RequestOption) (*StaffMember, error) {
	return resource.Get[StaffMember](ctx, s.t, resource.Staff, id, options)
}

// List returns the clinic's staff members.
// API section: GET /clinic/staff.
func (s Staff) List(options ...api.RequestOption) *api.List[StaffMember] {
	return transport.NewList[StaffMember](s.t, transport.Call{Operation: operation.StaffList, Options: options})
}

// Format prints type and ID only.
func (p StaffMember) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.StaffMember", p.ID) }

// LogValue logs type and ID only.
func (p StaffMember) LogValue() slog.Value { return redact.LogValue("clinic.StaffMember", p.ID) }

// Format prints the type and the metadata ID only.
func (n StaffMemberCreate) Format(f fmt.State, _ rune) {
	redact.Format(f, "clinic.StaffMemberCreate", n.Metadata.ID)
}

// LogValue logs the type and the metadata ID only.
func (n StaffMemberCreate) LogValue() slog.Value {
	return redact.LogValue("clinic.StaffMemberCreate", n.Metadata.ID)
}

// Format prints the type only.
func (u StaffMemberUpdate) Format(f fmt.State, _ rune) {
	redact.Format(f, "clinic.StaffMemberUpdate", "")
}

// LogValue logs the type only.
func (u StaffMemberUpdate) LogValue() slog.Value {
	return redact.LogValue("clinic.StaffMemberUpdate", "")
}
