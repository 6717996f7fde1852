// Package model holds the nouns of the platform: patients, plans, orders, products,
// events and their deliveries, what is asked for when one is made or changed, and the
// faults that can be set. Package dispensarytest hands them out as copies.
package model

import (
	"time"
)

// Clinic is the practice that an application works for. API section: "Clinic".
type Clinic struct {
	ID            string
	Name          string
	Discount      float64 // percent off every patient order
	DispensaryURL string
}

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

// Patient is a person who orders supplements. Empty strings are null in the
// API. API section: "Patient".
type Patient struct {
	ID               string
	ClinicID         string
	FirstName        string
	LastName         string
	Email            string // unique on the whole platform, whatever its case
	DateOfBirth      string // yyyy-mm-dd
	Gender           string
	Discount         float64 // percent, without the clinic's
	MobileNumber     string  // with a leading +
	TextNotification bool
	MetadataID       string // the integrator's own identifier
	Welcomed         bool   // the platform sent its welcome e-mail
}

// Practitioner is a prescriber of the clinic. API section: "Practitioner".
type Practitioner struct {
	ID         string
	ClinicID   string
	FirstName  string
	LastName   string
	Email      string
	TypeID     string // a [PractitionerType]
	MetadataID string
}

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

// User types. API section: "Authentication".
const (
	UserPractitioner = "Practitioner"
	UserStaff        = "Staff"
)

// User is a person who can sign in on the authorize page.
type User struct {
	ID       string // the id of the practitioner or staff member
	Email    string
	Password string
	Type     string // UserPractitioner or UserStaff
	Name     string
	ClinicID string
}

// Token is a live pair of tokens.
type Token struct {
	ID           string // names the token in the journal
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	User         User
}

// Credential is a token or an authorization code as the platform knows it.
type Credential struct {
	Kind      string // "access_token", "refresh_token" or "code"
	Value     string
	TokenID   string // names an access token in the journal; empty for others
	User      User
	Scopes    []string
	ExpiresAt time.Time // zero for refresh tokens, which do not expire

	// Refusal is why the platform would refuse it now; empty while it is good.
	Refusal string
}

// Application is the integrator's registration in the developer dashboard.
// API section: "Authentication" 2.
type Application struct {
	Name           string
	ClientID       string
	ClientSecret   string
	RedirectURI    string
	Scopes         []string
	WebhookSecret  string // key of the signatures
	ChallengeToken string // what a webhook endpoint answers with
}
