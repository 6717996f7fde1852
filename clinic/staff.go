package clinic

import (
	"context"
	"fmt"
	"iter"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/redact"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Staff is a member of the clinic's office staff.
// API section: "Staff".
type Staff struct {
	ID        string `json:"id"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	// Email is unique (an assumption: the API describes no attributes of staff).
	Email string `json:"email"`

	Metadata Metadata `json:"metadata"`
}

// NewStaff describes a staff member to create.
// API section: POST /clinic/staff.
type NewStaff struct {
	// All but Metadata are required (an assumption: the API lists no arguments).
	Email     string `json:"email"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`

	Metadata Metadata `json:"metadata,omitzero"`
}

// StaffUpdate changes a staff member. Fields that are left out stay as they are.
// API section: PATCH /clinic/staff/<id>.
type StaffUpdate struct {
	Email     api.Optional[string]   `json:"email,omitzero"`
	FirstName api.Optional[string]   `json:"first_name,omitzero"`
	LastName  api.Optional[string]   `json:"last_name,omitzero"`
	Metadata  api.Optional[Metadata] `json:"metadata,omitzero"`
}

// StaffMembers calls the staff endpoints. Get it from [Service].
type StaffMembers struct{ t *transport.Client }

// Create adds a staff member. Where the answer is lost the error matches
// [api.ErrMaybeApplied]: look the staff member up before creating again.
// API section: POST /clinic/staff.
func (s StaffMembers) Create(ctx context.Context, n NewStaff, options ...api.RequestOption) (*Staff, error) {
	op := operation.StaffCreate
	if err := transport.Required(op, "Email", n.Email, "FirstName", n.FirstName, "LastName", n.LastName); err != nil {
		return nil, err
	}
	return transport.One[Staff](ctx, s.t, transport.Call{Operation: op, Body: n, Options: options})
}

// Update changes the fields that u sets.
// API section: PATCH /clinic/staff/<id>.
func (s StaffMembers) Update(ctx context.Context, id string, u StaffUpdate, options ...api.RequestOption) (*Staff, error) {
	return transport.One[Staff](ctx, s.t, transport.Call{Operation: operation.StaffUpdate, Path: []string{id}, Body: u, Options: options})
}

// Get returns one staff member. An unknown id matches [api.ErrNotFound].
// API section: GET /clinic/staff/<id>.
func (s StaffMembers) Get(ctx context.Context, id string, options ...api.RequestOption) (*Staff, error) {
	return transport.One[Staff](ctx, s.t, transport.Call{Operation: operation.StaffGet, Path: []string{id}, Options: options})
}

// StaffListOptions says which part of the staff member list is read.
type StaffListOptions struct {
	api.Paging
}

// List returns one page of the clinic's staff members.
// API section: GET /clinic/staff.
func (s StaffMembers) List(ctx context.Context, o StaffListOptions, options ...api.RequestOption) (*api.Page[Staff], error) {
	return transport.List[Staff](ctx, s.t, transport.Call{Operation: operation.StaffList, Options: options}, o.Paging)
}

// Pages returns the clinic's staff members page by page; an error ends the sequence.
// API section: GET /clinic/staff.
func (s StaffMembers) Pages(ctx context.Context, o StaffListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[Staff], error] {
	return transport.Pages[Staff](ctx, s.t, transport.Call{Operation: operation.StaffList, Options: options}, o.Paging)
}

// All returns the clinic's staff members one by one; an error ends the sequence.
// API section: GET /clinic/staff.
func (s StaffMembers) All(ctx context.Context, o StaffListOptions, options ...api.RequestOption) iter.Seq2[Staff, error] {
	return transport.All[Staff](ctx, s.t, transport.Call{Operation: operation.StaffList, Options: options}, o.Paging)
}

// Format prints type and id only.
func (p Staff) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.Staff", p.ID) }

// LogValue logs type and id only.
func (p Staff) LogValue() slog.Value { return redact.LogValue("clinic.Staff", p.ID) }

// Format prints the type and the integrator's id only.
func (n NewStaff) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.NewStaff", n.Metadata.ID) }

// LogValue logs the type and the integrator's id only.
func (n NewStaff) LogValue() slog.Value { return redact.LogValue("clinic.NewStaff", n.Metadata.ID) }

// Format prints the type only.
func (u StaffUpdate) Format(f fmt.State, _ rune) { redact.Format(f, "clinic.StaffUpdate", "") }

// LogValue logs the type only.
func (u StaffUpdate) LogValue() slog.Value { return redact.LogValue("clinic.StaffUpdate", "") }
