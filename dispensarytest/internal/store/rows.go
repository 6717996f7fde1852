package store

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Integration is the application's connection to a clinic. A clinic can have
// several; every event is sent once for each that is enabled.
type Integration struct {
	ID        string
	ClinicID  string
	Key       string
	Activated time.Time // zero until the first request with the key
	Revoked   bool
}

// Genders that the API knows. API section: "Patient".
const (
	GenderMale   = "male"
	GenderFemale = "female"
	GenderX      = "x"
)

// StaffMember works in the clinic's office. API section: "Staff".
type StaffMember struct {
	ID         string
	ClinicID   string
	FirstName  string
	LastName   string
	Email      string
	MetadataID string
}

// Address is where a patient's orders go. API section: "Address".
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

// Term is an entry of one of the catalog's word lists: an allergen, an
// ingredient, a supplement type or a third-party certification.
// API section: "Resources and their fields".
type Term struct {
	ID   string
	Name string
}

// PractitionerType is a profession. API section: "Practitioner type".
type PractitionerType struct {
	ID          string
	Code        string
	Description string
}

// Brand is a maker of products. API section: "Brand".
type Brand struct {
	ID     string
	Name   string
	Prefix string

	// Available tells that at least one product can be ordered; the API calls
	// it the status. The platform keeps it up to date.
	Available bool

	// Restricted brands are open to the clinics of ClinicIDs alone: for others, product
	// search and clinic_permitted leave them out.
	Restricted bool
	ClinicIDs  []string
}

// Permits reports that a brand is open to a clinic.
func (b *Brand) Permits(clinicID string) bool {
	return !b.Restricted || slices.Contains(b.ClinicIDs, clinicID)
}

// Category groups products for a clinic. API section: "Category".
type Category struct {
	ID       string
	Name     string
	ClinicID string
}

// CustomDosage is what one practitioner recommends for a product in place of
// the product's own dosage.
type CustomDosage struct {
	ID             string // practitioner and product
	PractitionerID string
	ProductID      string
	Dosage         model.Dosage
}

func CustomDosageID(practitionerID, productID string) string {
	return practitionerID + "/" + productID
}

// Ownerships of protocols. A practitioner sees the own protocols, and those that
// colleagues of the clinic share.
const (
	ProtocolOwned  = "owned"
	ProtocolShared = "shared"
)
