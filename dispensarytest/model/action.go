package model

import (
	"errors"
)

// PatientCreate is a person who registers, with the first clinic unless another one is
// named. Names and address are made up where they are empty.
type PatientCreate struct {
	FirstName    string
	LastName     string
	Email        string
	DateOfBirth  string
	Gender       string
	MobileNumber string
	ClinicID     string
}

// PatientUpdate is what a patient edits; nil leaves a field as it is, and a
// pointer to "" clears it.
type PatientUpdate struct {
	FirstName        *string
	LastName         *string
	Email            *string
	DateOfBirth      *string
	Gender           *string
	MobileNumber     *string
	TextNotification *bool
}

// PlanCreate is a plan that a practitioner writes on the platform. Without a
// practitioner it is the first of the patient's clinic, without recommendations one pack of
// the first product that is available.
type PlanCreate struct {
	PractitionerID  string
	PersonalMessage string
	Recommendations []Recommendation
	Draft           bool
}

// PlanUpdate is what a practitioner edits; nil leaves a field as it is.
type PlanUpdate struct {
	PersonalMessage *string
	Recommendations []Recommendation
}

// ProtocolCreate is a protocol that a practitioner writes on the platform: the first
// practitioner unless set. Its name is made up if it is empty. Without recommendations it
// recommends one pack of the first product that is available.
type ProtocolCreate struct {
	Name            string
	PractitionerID  string
	PersonalMessage string
	Ownership       string // one of the ownerships; empty is owned
	Recommendations []ProtocolRecommendation
	Draft           bool
}

// OrderCreate is what a patient orders. Without lines it takes the recommendations of the
// plans, added up; without plans, too, what an in-office checkout put into the cart, or
// one pack of the first product that is available.
type OrderCreate struct {
	PlanIDs []string
	Lines   []Line
}

// ProductCreate is a product that comes into the catalog. What is empty is made
// up: a name, the first brand, one pack.
type ProductCreate struct {
	Name            string
	BrandID         string
	DescriptionHTML string
	Variants        []VariantCreate
}

// VariantCreate is a pack of a new product; empty, it holds 60 capsules for 19.99
// and is available.
type VariantCreate struct {
	Units         int
	UnitOfMeasure string
	MSRP          Cents
	Status        string
}

// ProductUpdate is what changes about a product; nil leaves a field as it is.
type ProductUpdate struct {
	Name   *string
	Dosage *Dosage
}

// VariantUpdate is what changes about a variant; nil leaves a field as it is. Units of
// 0 and empty texts become null.
type VariantUpdate struct {
	MSRP          *Cents
	Status        *string
	Units         *int
	UnitOfMeasure *string
	UPC           *string
	SupplierSKU   *string
}

// The reasons why an action fails. errors.Is finds them.
var (
	// ErrNotFound: nothing has the id that was named.
	ErrNotFound = errors.New("not found")

	// ErrValidation: a value is missing, taken or of the wrong form.
	ErrValidation = errors.New("invalid")

	// ErrState: the object's state does not allow the action.
	ErrState = errors.New("wrong state")
)

// Overview is the latest of what a platform holds, the newest first, and how much
// there is of it.
type Overview struct {
	Patients []Patient
	Plans    []Plan
	Orders   []Order
	Products []Product
	Events   []Event

	// Totals count all of them, older ones included.
	Totals struct{ Patients, Plans, Orders, Products, Events int }
}
