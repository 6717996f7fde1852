package store

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Integration is the application's connection to a clinic. A clinic can have several, and each
// enabled one receives every event.
type Integration struct {
	ID        string
	ClinicID  string
	Key       string
	Activated time.Time // zero until the first request with the key
	Revoked   bool
}

// Genders of the API. API section: "Patient".
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
	CreatedAt  time.Time // zero in the initial world
}

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

// Term is an entry of one of the catalog's word lists: an allergen, an ingredient, a
// supplement type or a third-party certification. API section: "Resources and their fields".
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

	// Available reports whether at least one product can be ordered. The API calls it the
	// status. The platform updates it.
	Available bool

	// Restricted brands are open only to the clinics in ClinicIDs. For other clinics, product
	// search and clinic_permitted omit them.
	Restricted bool
	ClinicIDs  []string
}

// Permits reports whether a brand is open to a clinic.
func (b *Brand) Permits(clinicID string) bool {
	return !b.Restricted || slices.Contains(b.ClinicIDs, clinicID)
}

// Category groups products for a clinic. API section: "Category".
type Category struct {
	ID       string
	Name     string
	ClinicID string
}

// CustomDosage is a dosage that one practitioner recommends in place of the product's own
// dosage.
type CustomDosage struct {
	ID             string // practitioner id and product id
	PractitionerID string
	ProductID      string
	Dosage         model.Dosage
}

func CustomDosageID(practitionerID, productID string) string {
	return practitionerID + "/" + productID
}

// Ownerships of protocols. A practitioner sees the practitioner's own protocols and the shared
// protocols of colleagues in the clinic.
const (
	ProtocolOwned  = "owned"
	ProtocolShared = "shared"
)
