package store

import (
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/fold"
)

// People contains the people of all clinics.
type People struct {
	Patients      table.Table[*model.Patient]
	Practitioners table.Table[*model.Practitioner]
	Staff         table.Table[*Colleague]
	Addresses     table.Table[*Address]
	Users         table.Table[*model.User]
}

// Genders of the API. API section: "Patient".
const (
	GenderMale   = "male"
	GenderFemale = "female"
	GenderX      = "x"
)

// Colleague is a practitioner, or a member of the office staff, who has no type. API sections:
// "Practitioner", "Staff".
type Colleague = model.Practitioner

// Address is the shipping address of a patient. API section: "Address".
type Address struct {
	ID        string
	PatientID string
	Address1  string
	Address2  string // empty is null
	Zipcode   string
	City      string
	State     string // state or province
	Country   string
}

// PatientOf returns a patient of the clinic. Like the methods below, it returns false if the row
// belongs to another clinic.
func (p *People) PatientOf(clinicID, id string) (*model.Patient, bool) {
	row, known := table.Get(p.Patients, id)
	return row, known && row.ClinicID == clinicID
}

func (p *People) PractitionerOf(clinicID, id string) (*model.Practitioner, bool) {
	row, known := table.Get(p.Practitioners, id)
	return row, known && row.ClinicID == clinicID
}

func (p *People) StaffOf(clinicID, id string) (*Colleague, bool) {
	row, known := table.Get(p.Staff, id)
	return row, known && row.ClinicID == clinicID
}

// FirstPractitioner returns the id of a clinic's first practitioner, or "" if it has none.
func (p *People) FirstPractitioner(clinicID string) string {
	if of := table.Of(p.Practitioners, ByClinic, clinicID); len(of) > 0 {
		return of[0].ID
	}
	return ""
}

// PatientByEmail returns the patient with an email address.
func (p *People) PatientByEmail(email string) (*model.Patient, bool) {
	if of := table.Of(p.Patients, byEmail, EmailKey(email)); len(of) > 0 {
		return of[0], true
	}
	return nil, false
}

// EmailTaken reports whether the address belongs to a patient other than exceptID.
func (p *People) EmailTaken(email, exceptID string) bool {
	of, known := p.PatientByEmail(email)
	return known && of.ID != exceptID
}

// UserEmailTaken reports whether the address belongs to a practitioner or a staff member
// other than exceptID.
func (p *People) UserEmailTaken(email, exceptID string) bool {
	key := EmailKey(email)
	owners := slices.Concat(table.Of(p.Practitioners, byEmail, key), table.Of(p.Staff, byEmail, key))
	return slices.ContainsFunc(owners, func(c *Colleague) bool { return c.ID != exceptID })
}

// SetUserEmail changes the address that a user signs in with, if there is an account.
func (p *People) SetUserEmail(id, email string) {
	if old, ok := table.Get(p.Users, id); ok && old.Email != email {
		changed := *old
		changed.Email = email
		table.Put(&p.Users, &changed)
	}
}

// EmailKey normalizes an address for comparison. It changes only ASCII letters to lower case:
// the Kelvin sign is not a k.
func EmailKey(email string) string { return fold.ASCII(strings.TrimSpace(email)) }
