package clinic

import (
	"context"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/metadata"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Ensure returns the patient that carries n.Metadata.ID, which is required, and
// creates it where there is none. It reports whether it did.
//
// It is safe to repeat, and safe where an answer is lost: a create call without a
// clear answer is followed by looks for the patient, never by a second patient.
// A patient of the clinic with the same e-mail and no metadata id is given this
// one and returned. Other fields of a patient that is found stay as they are.
//
// Callers that share a client, or views of it, ensure one id after the other.
// Between processes the platform's unique e-mails do the same. Where an answer was lost
// and another process ensures the same patient, both may report that they created it.
//
// Errors beyond those of Create: [*api.EnsureError] where several patients carry
// the id, where the e-mail belongs to a patient with another id, and where a
// create call may have been applied and no patient has appeared.
// API section: "Metadata", "Patients".
func (s Patients) Ensure(ctx context.Context, n NewPatient, options ...api.RequestOption) (patient *Patient, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(options), n.Metadata.ID, func(ctx context.Context) (*Patient, error) {
		p, err := metadata.Find[Patient](ctx, s.t, operation.PatientCreate, string(MetadataPatient), n.Metadata.ID, options)
		if err != nil || p != nil {
			return p, err
		}
		return s.adopt(ctx, n, options)
	})
}

// adopt finds a patient by e-mail and gives it the integrator's id, unless it has
// another one.
func (s Patients) adopt(ctx context.Context, n NewPatient, options []api.RequestOption) (*Patient, error) {
	for found, err := range s.SearchAll(ctx, PatientSearchOptions{Query: n.Email}, options...) {
		if err != nil {
			return nil, err
		}
		if !strings.EqualFold(found.Email, n.Email) {
			continue
		}
		patient, err := s.Get(ctx, found.ID, options...)
		if err != nil || patient.Metadata.ID == n.Metadata.ID {
			return patient, err
		}
		if patient.Metadata.ID != "" {
			return nil, &api.EnsureError{Operation: operation.PatientCreate.Name, Reason: api.EnsureTaken, Field: "email", IDs: []string{patient.ID}}
		}
		return s.Update(ctx, patient.ID, PatientUpdate{Metadata: api.Value(n.Metadata)}, options...)
	}
	return nil, nil
}

// Ensure returns the practitioner that carries n.Metadata.ID, which is required,
// and creates it where there is none. It is safe in the way [Patients.Ensure] is,
// but finds practitioners by their metadata id only.
// API section: "Metadata", "Practitioners".
func (s Practitioners) Ensure(ctx context.Context, n NewPractitioner, options ...api.RequestOption) (practitioner *Practitioner, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(options), n.Metadata.ID, func(ctx context.Context) (*Practitioner, error) {
		return metadata.Find[Practitioner](ctx, s.t, operation.PractitionerCreate, string(MetadataPractitioner), n.Metadata.ID, options)
	})
}

// Ensure returns the staff member that carries n.Metadata.ID, which is required,
// and creates it where there is none. It is safe in the way [Patients.Ensure] is,
// but finds staff by their metadata id only; that their e-mails are unique between
// processes is an assumption.
// API section: "Metadata", "Staff".
func (s Staff) Ensure(ctx context.Context, n NewStaffMember, options ...api.RequestOption) (member *StaffMember, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(options), n.Metadata.ID, func(ctx context.Context) (*StaffMember, error) {
		return metadata.Find[StaffMember](ctx, s.t, operation.StaffCreate, string(MetadataStaff), n.Metadata.ID, options)
	})
}
