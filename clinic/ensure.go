package clinic

import (
	"context"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/fold"
	"github.com/dispensary-go/dispensary/internal/metadata"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Ensure returns the patient with the metadata id n.Metadata.ID, which is required. If
// there is none, Ensure creates the patient. It reports whether it created the patient.
//
// Ensure is idempotent. It makes at most one create call, and searches for the patient if
// that call has no clear outcome. Callers that share a client, or views of it, ensure one
// id after the other. Between processes the platform's unique e-mails prevent a second
// patient. If a response was lost and another process ensures the same patient, both may
// report that they created it.
//
// If a patient of the clinic has the same e-mail and no metadata id, Ensure sets the id on
// that patient and returns it. It does so only if the names and the date of birth do not
// contradict those of n. Names are compared without case and accents, and a value that is
// missing on one side contradicts nothing. E-mails are trimmed, and ASCII letters are
// compared without case. Ensure changes no other field of a patient that exists.
//
// It fails with the errors of Create, or with an [*api.EnsureError] if
//
//   - several patients have the metadata id,
//   - the e-mail belongs to a patient with another metadata id,
//   - the e-mail belongs to a patient with another name or date of birth,
//   - the platform stored another metadata id than was sent, or
//   - a create call may have been applied and no patient has appeared.
//
// API section: "Metadata", "Patients".
func (s Patients) Ensure(ctx context.Context, n PatientCreate, options ...api.RequestOption) (patient *Patient, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(options), n.Metadata.ID, (*Patient).ids, func(ctx context.Context) (*Patient, error) {
		p, err := metadata.Find[Patient](ctx, s.t, operation.PatientCreate, metadata.Patient, n.Metadata.ID, options)
		if err != nil || p != nil {
			return p, err
		}
		return s.adopt(ctx, n, options)
	})
}

func (p *Patient) ids() (id, key string) { return p.ID, p.Metadata.ID }

// adopt finds a patient by e-mail and sets the integrator's id, unless the patient has
// another one or is another person.
func (s Patients) adopt(ctx context.Context, n PatientCreate, options []api.RequestOption) (*Patient, error) {
	id, err := s.findByEmail(ctx, n.Email, options)
	if err != nil || id == "" {
		return nil, err
	}
	patient, err := s.Get(ctx, id, options...)
	if err != nil || patient.Metadata.ID == n.Metadata.ID {
		return patient, err
	}
	failure := &api.EnsureError{Operation: operation.PatientCreate.Name, Field: "email", IDs: []string{patient.ID}}
	switch {
	case patient.Metadata.ID != "":
		failure.Reason = api.EnsureReasonTaken
		return nil, failure
	case n.contradicts(patient):
		failure.Reason = api.EnsureReasonContradicted
		return nil, failure
	}
	return s.setID(ctx, patient.ID, n.Metadata, options)
}

// findByEmail returns the id of the patient with an e-mail, or "".
func (s Patients) findByEmail(ctx context.Context, email string, options []api.RequestOption) (id string, err error) {
	call := transport.Call{Operation: operation.PatientSearch, Query: PatientSearchOptions{Query: strings.TrimSpace(email)}, Options: options}
	for page, err := range transport.Pages[PatientSummary](ctx, s.t, call) {
		if err != nil {
			return "", err
		}
		for _, found := range page.Items {
			if emailKey(found.Email) == emailKey(email) {
				return found.ID, nil
			}
		}
	}
	return "", nil
}

// setID sets the integrator's id on a patient and checks that the platform stored it.
func (s Patients) setID(ctx context.Context, id string, m Metadata, options []api.RequestOption) (*Patient, error) {
	patient, err := s.Update(ctx, id, PatientUpdate{Metadata: api.Value(m)}, options...)
	if err == nil && patient.Metadata != m {
		return nil, &api.EnsureError{Operation: operation.PatientCreate.Name, Reason: api.EnsureReasonAltered, IDs: []string{id}}
	}
	return patient, err
}

// contradicts reports whether found has another name or date of birth than p. The
// address alone does not identify a person: parents use theirs for their children.
func (p PatientCreate) contradicts(found *Patient) bool {
	return differ(fold.Name(p.FirstName), fold.Name(found.FirstName)) ||
		differ(fold.Name(p.LastName), fold.Name(found.LastName)) ||
		differ(p.DateOfBirth, found.DateOfBirth)
}

// differ reports whether two values are known and different.
func differ[T comparable](a, b T) bool {
	var unknown T
	return a != unknown && b != unknown && a != b
}

// emailKey returns an address in the form in which addresses are compared. Assumption:
// the platform ignores outer white space and the case of ASCII letters. A letter that only
// looks like an ASCII letter belongs to another address.
func emailKey(email string) string { return fold.ASCII(strings.TrimSpace(email)) }

// Ensure returns the practitioner with the metadata id n.Metadata.ID, which is required.
// If there is none, Ensure creates the practitioner. It is idempotent in the way
// [Patients.Ensure] is, but finds practitioners by their metadata id only.
// API section: "Metadata", "Practitioners".
func (s Practitioners) Ensure(ctx context.Context, n PractitionerCreate, options ...api.RequestOption) (practitioner *Practitioner, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(options), n.Metadata.ID, (*Practitioner).ids, func(ctx context.Context) (*Practitioner, error) {
		return metadata.Find[Practitioner](ctx, s.t, operation.PractitionerCreate, metadata.Practitioner, n.Metadata.ID, options)
	})
}

func (p *Practitioner) ids() (id, key string) { return p.ID, p.Metadata.ID }

// Ensure returns the staff member with the metadata id n.Metadata.ID, which is required.
// If there is none, Ensure creates the staff member. It is idempotent in the way
// [Patients.Ensure] is, but finds staff by their metadata id only. Assumption: the
// platform makes their e-mails unique, which prevents a second one between processes.
// API section: "Metadata", "Staff".
func (s Staff) Ensure(ctx context.Context, n StaffMemberCreate, options ...api.RequestOption) (member *StaffMember, created bool, err error) {
	return transport.Ensure(ctx, s.t, n.create(options), n.Metadata.ID, (*StaffMember).ids, func(ctx context.Context) (*StaffMember, error) {
		return metadata.Find[StaffMember](ctx, s.t, operation.StaffCreate, metadata.Staff, n.Metadata.ID, options)
	})
}

func (p *StaffMember) ids() (id, key string) { return p.ID, p.Metadata.ID }
