package model

import (
	"errors"
)

// PlanCreate describes a plan that a practitioner writes on the platform. An empty
// PractitionerID is the first practitioner of the patient's clinic. If Recommendations is
// empty, the plan recommends one pack of the first available product.
type PlanCreate struct {
	PractitionerID  string
	PersonalMessage string
	Recommendations []Recommendation
	Draft           bool
}

// PlanUpdate contains a practitioner's changes to a plan. Nil keeps a field.
type PlanUpdate struct {
	PersonalMessage *string
	Recommendations []Recommendation
}

// ProtocolCreate describes a protocol that a practitioner writes on the platform. Create makes
// up an empty Name. An empty PractitionerID is the first practitioner. If Recommendations is
// empty, the protocol recommends one pack of the first available product.
type ProtocolCreate struct {
	Name            string
	PractitionerID  string
	PersonalMessage string
	Ownership       string // one of the ownerships, or empty for owned
	Recommendations []ProtocolRecommendation
	Draft           bool
}

// OrderCreate describes an order of a patient. If Lines is empty, the order contains the
// recommendations of the plans, added up. If PlanIDs is empty as well, it contains the
// patient's cart from an in-office checkout, or else one pack of the first available product.
type OrderCreate struct {
	PlanIDs []string
	Lines   []Line
}

// ProductCreate describes a new product of the catalog. Create makes up an empty Name. An
// empty BrandID is the first brand, and empty Variants mean one pack.
type ProductCreate struct {
	Name            string
	BrandID         string
	DescriptionHTML string
	Variants        []VariantCreate
}

// VariantCreate describes a pack of a new product. The zero value is a pack of 60 capsules for
// 19.99, available.
type VariantCreate struct {
	Units         int
	UnitOfMeasure string
	MSRP          Cents
	Status        string
}

// ProductUpdate contains the changes to a product. Nil keeps a field.
type ProductUpdate struct {
	Name   *string
	Dosage *Dosage
}

// Apply changes the fields of p that u sets.
func (u ProductUpdate) Apply(p *Product) {
	set(&p.Name, u.Name)
	set(&p.Dosage, u.Dosage)
}

// VariantUpdate contains the changes to a variant. Nil keeps a field. Units of 0 and empty
// strings become null.
type VariantUpdate struct {
	MSRP          *Cents
	Status        *string
	Units         *int
	UnitOfMeasure *string
	UPC           *string
	SupplierSKU   *string
}

// Apply changes the fields of v that u sets.
func (u VariantUpdate) Apply(v *Variant) {
	set(&v.MSRP, u.MSRP)
	set(&v.Status, u.Status)
	set(&v.Units, u.Units)
	set(&v.UnitOfMeasure, u.UnitOfMeasure)
	set(&v.UPC, u.UPC)
	set(&v.SupplierSKU, u.SupplierSKU)
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// Errors of actions, for errors.Is.
var (
	// ErrNotFound: no object has this id.
	ErrNotFound = errors.New("not found")

	// ErrValidation: a value is missing, already taken or malformed.
	ErrValidation = errors.New("invalid")

	// ErrState: the object's state does not allow the action.
	ErrState = errors.New("wrong state")
)

// Overview contains the latest rows of a platform, newest first, and the total numbers.
type Overview struct {
	Patients []Patient
	Plans    []Plan
	Orders   []Order
	Products []Product
	Events   []Event

	// Totals count all rows, including older ones.
	Totals struct{ Patients, Plans, Orders, Products, Events int }
}
