package clinic

import (
	"context"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/fold"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/resource"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// Ensure returns the patient with the metadata ID n.Metadata.ID, which is required. If there
// is none, Ensure creates the patient. It reports whether it created the patient.
//
// Ensure is idempotent. It makes at most one create call. If that call has no clear outcome,
// it searches for the patient. Calls for the same clinic and ID through one client or its
// views run one after the other, and return the created patient even if the platform's lookup
// does not show it yet. Between processes, the platform's unique e-mail addresses prevent a
// second patient. If a response is lost while another process ensures the same patient, both
// may report that they created it. If the lookup does not show a patient whom another process
// has just created, the error matches [api.ErrValidation].
//
// If a patient of the clinic has the same e-mail address and no metadata ID, Ensure sets the
// ID on that patient and returns it, unless the names or the date of birth contradict those of
// n. It compares names without case and accents, and a value missing on one side contradicts
// nothing. It trims e-mail addresses and ignores the case of ASCII letters. Ensure changes no
// other field of an existing patient.
//
// It fails with the errors of Create, or with an [*api.EnsureError] if
//
//   - several patients have the metadata ID,
//   - the e-mail address belongs to a patient with another metadata ID (Field is "email"),
//   - the e-mail address belongs to a patient with another name or date of birth (also "email"),
//   - the platform stored a different metadata ID, or
//   - a create call may have been applied, but no patient has appeared.
//
// API section: "Metadata", "Patients".
func (s Patients) Ensure(ctx context.Context, n PatientCreate, options ...api.RequestOption) (patient *Patient, created bool, err error) {
	return transport.Ensure(ctx, s.t, transport.Ensuring[Patient]{
		Call: n.create(options), ID: n.Metadata.ID, IDs: (*Patient).ids,
		Find: func(ctx context.Context) (*Patient, error) {
			p, err := resource.Find[Patient](ctx, s.t, operation.PatientCreate, resource.Patient, n.Metadata.ID, options)
			if err != nil || p != nil {
				return p, err
			}
			return s.adopt(ctx, n, options)
		},
		Get: func(ctx context.Context, id string) (*Patient, error) { return s.Get(ctx, id, options...) },
	})
}

func (p *Patient) ids() (id, key string) { return p.ID, p.Metadata.ID }

// adopt finds a patient by e-mail address and sets the metadata ID, unless the patient has
// another one or is a different person.
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

// findByEmail returns the ID of the patient with an e-mail address, or "".
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

// setID sets the metadata ID of a patient and checks that the platform stored it.
func (s Patients) setID(ctx context.Context, id string, m Metadata, options []api.RequestOption) (*Patient, error) {
	patient, err := s.Update(ctx, id, PatientUpdate{Metadata: api.Value(m)}, options...)
	if err == nil && patient.Metadata != m {
		return nil, &api.EnsureError{Operation: operation.PatientCreate.Name, Reason: api.EnsureReasonAltered, IDs: []string{id}}
	}
	return patient, err
}

// contradicts reports whether found has another name or date of birth than p. The e-mail
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

// emailKey returns an e-mail address in a form for comparison. Assumption: the platform
// ignores outer white space and the case of ASCII letters. A letter that only looks like an
// ASCII letter belongs to another address.
func emailKey(email string) string { return fold.ASCII(strings.TrimSpace(email)) }

// Ensure returns the practitioner with the metadata ID n.Metadata.ID, which is required. If
// there is none, Ensure creates the practitioner. It is idempotent like [Patients.Ensure], but
// finds practitioners by their metadata ID only.
// API section: "Metadata", "Practitioners".
func (s Practitioners) Ensure(ctx context.Context, n PractitionerCreate, options ...api.RequestOption) (practitioner *Practitioner, created bool, err error) {
	return transport.Ensure(ctx, s.t, transport.Ensuring[Practitioner]{
		Call: n.create(options), ID: n.Metadata.ID, IDs: (*Practitioner).ids,
		Find: func(ctx context.Context) (*Practitioner, error) {
			return resource.Find[Practitioner](ctx, s.t, operation.PractitionerCreate, resource.Practitioner, n.Metadata.ID, options)
		},
		Get: func(ctx context.Context, id string) (*Practitioner, error) { return s.Get(ctx, id, options...) },
	})
}

func (p *Practitioner) ids() (id, key string) { return p.ID, p.Metadata.ID }

// Ensure returns the staff member with the metadata ID n.Metadata.ID, which is required. If
// there is none, Ensure creates the staff member. It is idempotent like [Patients.Ensure], but
// finds staff by their metadata ID only. Assumption: the platform requires unique e-mail
// addresses of staff, which prevents a second one between processes.
// API section: "Metadata", "Staff".
func (s Staff) Ensure(ctx context.Context, n StaffMemberCreate, options ...api.RequestOption) (member *StaffMember, created bool, err error) {
	return transport.Ensure(ctx, s.t, transport.Ensuring[StaffMember]{
		Call: n.create(options), ID: n.Metadata.ID, IDs: (*StaffMember).ids,
		Find: func(ctx context.Context) (*StaffMember, error) {
			return resource.Find[StaffMember](ctx, s.t, operation.StaffCreate, resource.Staff, n.Metadata.ID, options)
		},
		Get: func(ctx context.Context, id string) (*StaffMember, error) { return s.Get(ctx, id, options...) },
	})
}

func (p *StaffMember) ids() (id, key string) { return p.ID, p.Metadata.ID }
