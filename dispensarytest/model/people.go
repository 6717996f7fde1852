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

	// Rejection is the reason why the platform would reject it now. It is empty while the
	// credential is valid.
	Rejection string
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
