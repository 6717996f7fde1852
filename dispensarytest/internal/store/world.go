package store

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/fold"
)

// Epoch is the creation time of the default world. It is in the past of every real clock, and
// a frozen clock may start at it.
var Epoch = time.Date(2026, time.January, 5, 15, 0, 0, 0, time.UTC)

// World contains all data of one platform about clinics and the catalog. The lock of its
// [Store] guards it. A change replaces a row and never modifies it.
type World struct {
	Seed        uint64 // of the ids
	Environment api.Environment
	Numbers     map[string]uint64 // issued ids of each kind

	Allergens         table.Table[*Term]
	Ingredients       table.Table[*Term]
	SupplementTypes   table.Table[*Term]
	Certifications    table.Table[*Term]
	PractitionerTypes table.Table[*PractitionerType]
	Brands            table.Table[*Brand]
	Products          table.Table[*model.Product]
	Variants          table.Table[*model.Variant]
	Categories        table.Table[*Category]
	CustomDosages     table.Table[*CustomDosage]

	Clinics       table.Table[*model.Clinic]
	Integrations  table.Table[*Integration]
	Patients      table.Table[*model.Patient]
	Practitioners table.Table[*model.Practitioner]
	Staff         table.Table[*StaffMember]
	Addresses     table.Table[*Address]
	Users         table.Table[*model.User]
	Plans         table.Table[*model.Plan]
	Protocols     table.Table[*model.Protocol]
	Orders        table.Table[*model.Order]
	Events        table.Table[*model.Event]
	Carts         table.Table[*Cart]

	LastEvents map[string]time.Time // by object
}

// Cart contains the lines that a patient is about to order.
type Cart struct {
	PatientID string
	PlanID    string
	Lines     []model.Line
}

// Clone returns a world with the same rows.
func (w *World) Clone() *World {
	return &World{
		Seed: w.Seed, Environment: w.Environment, Numbers: maps.Clone(w.Numbers),
		Allergens:         table.Clone(w.Allergens),
		Ingredients:       table.Clone(w.Ingredients),
		SupplementTypes:   table.Clone(w.SupplementTypes),
		Certifications:    table.Clone(w.Certifications),
		PractitionerTypes: table.Clone(w.PractitionerTypes),
		Brands:            table.Clone(w.Brands),
		Products:          table.Clone(w.Products),
		Variants:          table.Clone(w.Variants),
		Categories:        table.Clone(w.Categories),
		CustomDosages:     table.Clone(w.CustomDosages),
		Clinics:           table.Clone(w.Clinics),
		Integrations:      table.Clone(w.Integrations),
		Patients:          table.Clone(w.Patients),
		Practitioners:     table.Clone(w.Practitioners),
		Staff:             table.Clone(w.Staff),
		Addresses:         table.Clone(w.Addresses),
		Users:             table.Clone(w.Users),
		Plans:             table.Clone(w.Plans),
		Protocols:         table.Clone(w.Protocols),
		Orders:            table.Clone(w.Orders),
		Events:            table.Clone(w.Events),
		Carts:             table.Clone(w.Carts),
		LastEvents:        maps.Clone(w.LastEvents),
	}
}

// Check returns an error if a decoded world is damaged.
func (w *World) Check() error {
	if w == nil || len(w.Clinics.Rows) == 0 || w.Numbers == nil || w.LastEvents == nil {
		return errors.New("it has no world")
	}
	return errors.Join(
		table.Check(w.Allergens), table.Check(w.Ingredients), table.Check(w.SupplementTypes), table.Check(w.Certifications),
		table.Check(w.PractitionerTypes), table.Check(w.Brands), table.Check(w.Products), table.Check(w.Variants),
		table.Check(w.Categories), table.Check(w.CustomDosages), table.Check(w.Clinics), table.Check(w.Integrations),
		table.Check(w.Patients), table.Check(w.Practitioners), table.Check(w.Staff), table.Check(w.Addresses),
		table.Check(w.Users), table.Check(w.Plans), table.Check(w.Protocols), table.Check(w.Orders),
		table.Check(w.Events), table.Check(w.Carts),
	)
}

// NewID returns the next id of a kind.
func (w *World) NewID(kind string) string {
	w.Numbers[kind]++
	return w.ID(kind, w.Numbers[kind])
}

// ID returns the n-th id of a kind.
func (w *World) ID(kind string, n uint64) string { return ids.Of(w.Seed, kind, n) }

// DefaultSeed is the seed of the world that most tests share.
const DefaultSeed = 1

// Two worlds are built once per process. Later uses clone them.
var (
	DefaultUS     = sync.OnceValue(func() *World { return BuildWorld(DefaultSeed, api.USSandbox) })
	DefaultCanada = sync.OnceValue(func() *World { return BuildWorld(DefaultSeed, api.CanadaSandbox) })
)

// NewWorld returns the world for a seed, an environment and a size.
func NewWorld(seed uint64, environment api.Environment, size model.WorldSize) *World {
	var w *World
	switch {
	case seed != DefaultSeed:
		w = BuildWorld(seed, environment)
	case environment == api.CanadaSandbox:
		w = DefaultCanada().Clone()
	default:
		w = DefaultUS().Clone()
	}
	w.Enlarge(size)
	return w
}

// clinic returns the clinic with an id.
func (w *World) clinic(id string) *model.Clinic {
	c, _ := table.Get(w.Clinics, id)
	return c
}

// PatientOf returns a patient of the clinic. It returns false if the patient belongs to
// another clinic.
func (w *World) PatientOf(clinicID, id string) (*model.Patient, bool) {
	p, ok := table.Get(w.Patients, id)
	return p, ok && p.ClinicID == clinicID
}

func (w *World) PractitionerOf(clinicID, id string) (*model.Practitioner, bool) {
	p, ok := table.Get(w.Practitioners, id)
	return p, ok && p.ClinicID == clinicID
}

// PractitionersOf returns the practitioners of a clinic.
func (w *World) PractitionersOf(clinicID string) []*model.Practitioner {
	return table.Where(w.Practitioners, func(p *model.Practitioner) bool { return p.ClinicID == clinicID })
}

// FirstPractitioner returns the id of a clinic's first practitioner, or "" if it has none.
func (w *World) FirstPractitioner(clinicID string) string {
	if of := w.PractitionersOf(clinicID); len(of) > 0 {
		return of[0].ID
	}
	return ""
}

// Variant returns a variant of the catalog. It returns false if its product was removed.
func (w *World) Variant(id string) (*model.Variant, bool) {
	v, known := table.Get(w.Variants, id)
	if !known {
		return nil, false
	}
	p, known := table.Get(w.Products, v.ProductID)
	return v, known && !p.Removed
}

// PatientByEmail returns the patient with an email address.
func (w *World) PatientByEmail(email string) (*model.Patient, bool) {
	key := EmailKey(email)
	for p := range table.All(w.Patients) {
		if EmailKey(p.Email) == key {
			return p, true
		}
	}
	return nil, false
}

// EmailTaken reports whether the address belongs to a patient other than exceptID.
func (w *World) EmailTaken(email, exceptID string) bool {
	p, known := w.PatientByEmail(email)
	return known && p.ID != exceptID
}

// UserEmailTaken reports whether the address belongs to a practitioner or a staff member
// other than exceptID.
func (w *World) UserEmailTaken(email, exceptID string) bool {
	key := EmailKey(email)
	return len(table.Where(w.Practitioners, func(p *model.Practitioner) bool { return p.ID != exceptID && EmailKey(p.Email) == key })) > 0 ||
		len(table.Where(w.Staff, func(m *StaffMember) bool { return m.ID != exceptID && EmailKey(m.Email) == key })) > 0
}

// SetUserEmail changes the address that a user signs in with, if there is an account.
func (w *World) SetUserEmail(id, email string) {
	if old, ok := table.Get(w.Users, id); ok && old.Email != email {
		changed := *old
		changed.Email = email
		table.Put(&w.Users, id, &changed)
	}
}

// EmailKey normalizes an address for comparison. It changes only ASCII letters to lower case:
// the Kelvin sign is not a k.
func EmailKey(email string) string { return fold.ASCII(strings.TrimSpace(email)) }

// ProductVariants returns the packs of a product, the primary one first.
func (w *World) ProductVariants(p *model.Product) []*model.Variant {
	variants := make([]*model.Variant, 0, len(p.VariantIDs))
	for _, id := range p.VariantIDs {
		if v, ok := table.Get(w.Variants, id); ok {
			variants = append(variants, v)
		}
	}
	return variants
}

// ProductStatus derives the status of a product: available if any variant is available, else
// backordered if any is backordered, else unavailable. API section: "Product".
func (w *World) ProductStatus(p *model.Product, reads *rules.Set) string {
	status := model.VariantUnavailable
	for _, id := range p.VariantIDs {
		v, _ := table.Get(w.Variants, id)
		switch {
		case v.Status == model.VariantAvailable:
			return model.VariantAvailable
		case v.Status == model.VariantBackordered, v.Status == model.VariantVendorBackorder && reads.VendorBackorders:
			status = model.VariantBackordered
		}
	}
	return status
}

// onSale reports whether a product has an available variant.
func (w *World) onSale(p *model.Product) bool {
	return !p.Removed && slices.ContainsFunc(p.VariantIDs, func(id string) bool {
		v, _ := table.Get(w.Variants, id)
		return v.Status == model.VariantAvailable
	})
}

// RefreshBrand recomputes whether a brand has a product on sale.
func (w *World) RefreshBrand(brandID string) {
	brand, ok := table.Get(w.Brands, brandID)
	if !ok {
		return
	}
	available := false
	for p := range table.All(w.Products) {
		available = available || p.BrandID == brandID && w.onSale(p)
	}
	if available != brand.Available {
		changed := *brand
		changed.Available = available
		table.Put(&w.Brands, brandID, &changed)
	}
}

func (w *World) StaffOf(clinicID, id string) (*StaffMember, bool) {
	m, ok := table.Get(w.Staff, id)
	return m, ok && m.ClinicID == clinicID
}

func (w *World) FirstAvailable() *model.Variant {
	for v := range table.All(w.Variants) {
		if v.Status == model.VariantAvailable {
			return v
		}
	}
	return nil
}

// ForgetEvents deletes events older than [Retention], and the oldest beyond limit. It returns
// their ids.
func (w *World) ForgetEvents(now time.Time, limit int) (ids []string) {
	for len(w.Events.Rows) > 0 {
		oldest := table.At(w.Events, 0)
		if now.Sub(oldest.CreatedAt) <= Retention && len(w.Events.Rows) <= limit {
			break
		}
		table.Remove(&w.Events, oldest.ID)
		ids = append(ids, oldest.ID)
	}
	return ids
}

// Retention is the period for which events and deliveries can be read. API section: "Limits".
const Retention = 30 * 24 * time.Hour

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
