package model

import "time"

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
