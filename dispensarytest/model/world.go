// Package model defines the objects of the platform: patients, plans, orders, products, events
// and their deliveries. It also defines the inputs of actions that create or change an object,
// and the faults that a test can set. Package dispensarytest returns all objects as copies.
package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// WorldSize is the minimum number of objects of each kind. Objects of the default world stay
// if they exceed it, and 0 adds none.
type WorldSize struct {
	Clinics  int
	Patients int // of all clinics together, like the fields below
	Products int
	Plans    int
	Orders   int
}

// Cents is an amount of money in hundredths of the region's currency. The API writes it as a
// decimal string: Cents(3499) is "34.99".
type Cents int64

// String returns the amount in the API's format, with two decimals.
func (c Cents) String() string {
	sign, n := "", int64(c)
	if n < 0 {
		sign, n = "-", -n
	}
	whole, rest := strconv.FormatInt(n/100, 10), strconv.FormatInt(100+n%100, 10)
	return sign + whole + "." + rest[1:]
}

// MarshalText encodes the amount as a decimal string.
func (c Cents) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses the format of [Cents.MarshalText].
func (c *Cents) UnmarshalText(text []byte) error {
	digits, negative := strings.CutPrefix(string(text), "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseInt(whole+fraction, 10, 64)
	if err != nil || n < 0 || len(fraction) != 2 {
		return fmt.Errorf("dispensarytest: %q is not an amount", text)
	}
	if *c = Cents(n); negative {
		*c = -*c
	}
	return nil
}

// Clinic is the practice that authorizes the application. API section: "Clinic".
type Clinic struct {
	ID            string
	Name          string
	Discount      float64 // percentage off every patient order
	DispensaryURL string
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

// States of treatment plans and protocols. API section: "States and
// transitions".
const (
	PlanStateDraft    = "draft"
	PlanStateActive   = "active"
	PlanStateCanceled = "cancelled"
)

// Recommendation is one line of a treatment plan. API section: "Treatment
// plan".
type Recommendation struct {
	VariantID       string
	UnitsToPurchase int
	Refill          bool
	Dosage          *Dosage // nil if the request set no dosage
}

// Plan is a treatment plan. API section: "Treatment plan".
type Plan struct {
	ID              string
	ClinicID        string
	State           string
	PatientID       string
	PractitionerID  string
	AvailableAt     time.Time // when it was sent to the patient (zero is null)
	CreatedAt       time.Time
	UpdatedAt       time.Time
	PersonalMessage string // empty is null
	Recommendations []Recommendation
	MetadataID      string

	// Outside marks plans that were not made through the API. Reading them
	// needs the scope patients:treatment_plan_history.
	Outside bool
}

// Protocol is a reusable plan, formerly called template. API section: "Protocol (formerly
// template)".
type Protocol struct {
	ID              string
	Name            string
	State           string
	PractitionerID  string
	PersonalMessage string // empty is null
	Ownership       string // one of the ownerships
	Recommendations []ProtocolRecommendation
}

// ProtocolRecommendation is one line of a protocol.
type ProtocolRecommendation struct {
	VariantID    string
	Refill       bool
	Dosage       Dosage
	Permutations string
	Quantity     int
}

// Line is one line of an order.
type Line struct {
	VariantID string
	Quantity  int
}

// Order is what a patient bought. API section: "Order".
type Order struct {
	ID           string
	Number       string
	ClinicID     string
	PatientID    string
	PlanIDs      []string
	Lines        []Line
	CompletedAt  time.Time
	MSRPTotal    Cents // before taxes and shipping
	ItemTotal    Cents // with the patient's and the clinic's discounts
	PaymentTotal Cents // with taxes, shipping and refunds
	Refunded     Cents
}

// Dosage describes how to take a product. All fields are free text.
type Dosage struct {
	Amount         string // a number, a range or a fraction: "1", "1-2", "1/2"
	Frequency      string // for example "twice per day"
	Duration       string // for example "30 days" (empty is null if the API allows null)
	Format         string // for example "capsule"
	AdditionalInfo string
}

// Product is a catalog entry. Patients order its variants. API section: "Product".
type Product struct {
	ID               string
	Name             string
	BrandID          string
	DescriptionHTML  string // empty is null
	Dosage           Dosage
	VariantIDs       []string // the first is the primary one
	SupplementTypeID string
	AllergenIDs      []string
	IngredientIDs    []string
	CertificationIDs []string
	CategoryIDs      []string // of all clinics

	// Removed reports whether the product has left the catalog. Orders and plans still refer
	// to it.
	Removed bool `json:",omitempty"`
}

// Variant statuses. API section: "Variant".
const (
	VariantAvailable    = "available"
	VariantBackordered  = "backordered"
	VariantDiscontinued = "discontinued"
	VariantUnavailable  = "unavailable"

	// VariantVendorBackorder means that the manufacturer is out of stock. See the behavior
	// vendor-backorder.
	VariantVendorBackorder = "vendor backorder"
)

// Variant is one pack of a product. API section: "Variant".
type Variant struct {
	ID            string
	ProductID     string
	SKU           string
	Units         int    // 0 is null
	UnitOfMeasure string // empty is null
	UPC           string // empty is null
	MSRP          Cents
	SupplierSKU   string // empty is null
	Status        string // one of the variant statuses (empty is null)
	Primary       bool
}
