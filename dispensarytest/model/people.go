// Package model defines the objects of the platform: patients, plans, orders, products, events
// and their deliveries. It also defines the inputs of actions that create or change an object,
// and the faults that a test can set. Package dispensarytest returns all objects as copies.
package model

import (
	"time"
)

// Clinic is the practice that authorizes the application. API section: "Clinic".
type Clinic struct {
	ID            string
	Name          string
	Discount      float64 // percentage off every patient order
	DispensaryURL string
}

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

// Practitioner is a prescriber of the clinic. API section: "Practitioner".
type Practitioner struct {
	ID         string
	ClinicID   string
	FirstName  string
	LastName   string
	Email      string
	TypeID     string // a [PractitionerType]
	MetadataID string

	// CreatedAt is zero for records of the initial world. The API does not show it.
	CreatedAt time.Time
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

// Token is a valid pair of an access token and a refresh token.
type Token struct {
	ID           string // identifies the token in the journal
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	User         User
}

// Credential is a token or an authorization code as stored by the platform.
type Credential struct {
	Kind      string // "access_token", "refresh_token" or "code"
	Value     string
	TokenID   string // identifies an access token in the journal, empty for other kinds
	User      User
	Scopes    []string
	ExpiresAt time.Time // zero for refresh tokens, which do not expire

	// Rejection is the reason for which the platform would reject the credential now. It is
	// empty if the credential is valid.
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
	WebhookSecret  string // signs webhooks
	ChallengeToken string // the expected response of a webhook endpoint
}
