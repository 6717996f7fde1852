package model

import "time"

// Patient is a person who orders supplements. Empty strings are null in the API. API section:
// "Patient".
type Patient struct {
	ID               string
	ClinicID         string
	FirstName        string
	LastName         string
	Email            string // unique on the whole platform, ignoring case
	DateOfBirth      string // yyyy-mm-dd
	Gender           string
	Discount         float64 // percentage, without the clinic's discount
	MobileNumber     string  // with a leading +
	TextNotification bool
	MetadataID       string // the integrator's own identifier
	Welcomed         bool   // the platform sent its welcome e-mail

	// CreatedAt is zero for records of the initial world. The API does not show it.
	CreatedAt time.Time
}

// PatientCreate describes a patient who registers. An empty ClinicID is the first clinic.
// Create makes up empty names and an empty email address, and leaves the other fields empty.
type PatientCreate struct {
	FirstName    string
	LastName     string
	Email        string
	DateOfBirth  string
	Gender       string
	MobileNumber string
	ClinicID     string
}

// Patient returns the described patient.
func (c PatientCreate) Patient() Patient {
	return Patient{
		ClinicID: c.ClinicID, FirstName: c.FirstName, LastName: c.LastName, Email: c.Email,
		DateOfBirth: c.DateOfBirth, Gender: c.Gender, MobileNumber: c.MobileNumber,
	}
}

// PatientUpdate contains the changes to a patient. Nil keeps a field, and a pointer to ""
// clears it.
type PatientUpdate struct {
	FirstName        *string
	LastName         *string
	Email            *string
	DateOfBirth      *string
	Gender           *string
	MobileNumber     *string
	TextNotification *bool
}

// Apply changes the fields of p that u sets.
func (u PatientUpdate) Apply(p *Patient) {
	set(&p.FirstName, u.FirstName)
	set(&p.LastName, u.LastName)
	set(&p.Email, u.Email)
	set(&p.DateOfBirth, u.DateOfBirth)
	set(&p.Gender, u.Gender)
	set(&p.MobileNumber, u.MobileNumber)
	set(&p.TextNotification, u.TextNotification)
}
