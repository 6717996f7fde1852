package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/fold"
)

// Epoch is when the default world was made. It is in the past of every real
// clock, and where a frozen clock may start.
var Epoch = time.Date(2026, time.January, 5, 15, 0, 0, 0, time.UTC)

// World is everything one platform knows about clinics and the catalog. Its
// server's lock guards it; rows are replaced, never changed.
type World struct {
	Seed    uint64 // of the ids
	Region  model.Region
	Numbers map[string]uint64 // how many ids of a kind were given out

	Allergens         table.Table[*model.Term]
	Ingredients       table.Table[*model.Term]
	SupplementTypes   table.Table[*model.Term]
	Certifications    table.Table[*model.Term]
	PractitionerTypes table.Table[*model.PractitionerType]
	Brands            table.Table[*model.Brand]
	Products          table.Table[*model.Product]
	Variants          table.Table[*model.Variant]
	Categories        table.Table[*model.Category]
	CustomDosages     table.Table[*model.CustomDosage]

	Clinics       table.Table[*model.Clinic]
	Integrations  table.Table[*model.Integration]
	Patients      table.Table[*model.Patient]
	Practitioners table.Table[*model.Practitioner]
	Staff         table.Table[*model.StaffMember]
	Addresses     table.Table[*model.Address]
	Users         table.Table[*model.User]
	Plans         table.Table[*model.Plan]
	Protocols     table.Table[*model.Protocol]
	Orders        table.Table[*model.Order]
	Events        table.Table[*model.Event]
	Carts         table.Table[*Cart]

	LastEvents map[string]time.Time // by object
}

// Cart is what a patient is about to order.
type Cart struct {
	PatientID string
	PlanID    string
	Lines     []model.Line
}

// Clone returns a world with the same rows.
func (w *World) Clone() *World {
	return &World{
		Seed: w.Seed, Region: w.Region, Numbers: maps.Clone(w.Numbers),
		Allergens:         w.Allergens.Clone(),
		Ingredients:       w.Ingredients.Clone(),
		SupplementTypes:   w.SupplementTypes.Clone(),
		Certifications:    w.Certifications.Clone(),
		PractitionerTypes: w.PractitionerTypes.Clone(),
		Brands:            w.Brands.Clone(),
		Products:          w.Products.Clone(),
		Variants:          w.Variants.Clone(),
		Categories:        w.Categories.Clone(),
		CustomDosages:     w.CustomDosages.Clone(),
		Clinics:           w.Clinics.Clone(),
		Integrations:      w.Integrations.Clone(),
		Patients:          w.Patients.Clone(),
		Practitioners:     w.Practitioners.Clone(),
		Staff:             w.Staff.Clone(),
		Addresses:         w.Addresses.Clone(),
		Users:             w.Users.Clone(),
		Plans:             w.Plans.Clone(),
		Protocols:         w.Protocols.Clone(),
		Orders:            w.Orders.Clone(),
		Events:            w.Events.Clone(),
		Carts:             w.Carts.Clone(),
		LastEvents:        maps.Clone(w.LastEvents),
	}
}

// NewID gives out the next id of a kind.
func (w *World) NewID(kind string) string {
	w.Numbers[kind]++
	return w.ID(kind, w.Numbers[kind])
}

// ID is the n-th id of a kind.
func (w *World) ID(kind string, n uint64) string { return ids.Of(w.Seed, kind, n) }

// DefaultSeed makes the world that most tests share.
const DefaultSeed = 1

// Two worlds are built once in a process and cloned from then on.
var (
	DefaultUS     = sync.OnceValue(func() *World { return BuildWorld(DefaultSeed, model.UnitedStates) })
	DefaultCanada = sync.OnceValue(func() *World { return BuildWorld(DefaultSeed, model.Canada) })
)

// NewWorld returns a world of a seed, a region and a size.
func NewWorld(seed uint64, region model.Region, size model.WorldSize) *World {
	var w *World
	switch {
	case seed != DefaultSeed:
		w = BuildWorld(seed, region)
	case region == model.Canada:
		w = DefaultCanada().Clone()
	default:
		w = DefaultUS().Clone()
	}
	w.Enlarge(size)
	return w
}

// clinic returns the clinic a token works for.
func (w *World) clinic(id string) *model.Clinic {
	c, _ := w.Clinics.Get(id)
	return c
}

// PatientOf returns a patient of the clinic; others are not known to it.
func (w *World) PatientOf(clinicID, id string) (*model.Patient, bool) {
	p, ok := w.Patients.Get(id)
	return p, ok && p.ClinicID == clinicID
}

func (w *World) PractitionerOf(clinicID, id string) (*model.Practitioner, bool) {
	p, ok := w.Practitioners.Get(id)
	return p, ok && p.ClinicID == clinicID
}

// PractitionersOf returns the practitioners of a clinic.
func (w *World) PractitionersOf(clinicID string) []*model.Practitioner {
	return w.Practitioners.Where(func(p *model.Practitioner) bool { return p.ClinicID == clinicID })
}

// FirstPractitioner is the id of a clinic's first practitioner; "" where it has none.
func (w *World) FirstPractitioner(clinicID string) string {
	if of := w.PractitionersOf(clinicID); len(of) > 0 {
		return of[0].ID
	}
	return ""
}

// Variant returns a variant of the catalog, which those of removed products are not.
func (w *World) Variant(id string) (*model.Variant, bool) {
	v, known := w.Variants.Get(id)
	if !known {
		return nil, false
	}
	p, known := w.Products.Get(v.ProductID)
	return v, known && !p.Removed
}

// PatientByEmail returns the patient with an address.
func (w *World) PatientByEmail(email string) (*model.Patient, bool) {
	key := EmailKey(email)
	for p := range w.Patients.All() {
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
	return len(w.Practitioners.Where(func(p *model.Practitioner) bool { return p.ID != exceptID && EmailKey(p.Email) == key })) > 0 ||
		len(w.Staff.Where(func(m *model.StaffMember) bool { return m.ID != exceptID && EmailKey(m.Email) == key })) > 0
}

// SetUserEmail changes the address that a user signs in with, if there is an account.
func (w *World) SetUserEmail(id, email string) {
	if old, ok := w.Users.Get(id); ok && old.Email != email {
		changed := *old
		changed.Email = email
		w.Users.Put(id, &changed)
	}
}

// EmailKey returns an address for comparison. Only ASCII letters lose their case: the
// Kelvin sign is no k.
func EmailKey(email string) string { return fold.ASCII(strings.TrimSpace(email)) }

// ProductVariants returns the packs of a product, the primary one first.
func (w *World) ProductVariants(p *model.Product) []*model.Variant {
	variants := make([]*model.Variant, 0, len(p.VariantIDs))
	for _, id := range p.VariantIDs {
		if v, ok := w.Variants.Get(id); ok {
			variants = append(variants, v)
		}
	}
	return variants
}

// ProductStatus is derived: available if any variant is, else backordered if
// any is, else unavailable. API section: "Product".
func (w *World) ProductStatus(p *model.Product, reads *behavior.Set) string {
	status := model.VariantUnavailable
	for _, id := range p.VariantIDs {
		v, _ := w.Variants.Get(id)
		switch {
		case v.Status == model.VariantAvailable:
			return model.VariantAvailable
		case v.Status == model.VariantBackordered, v.Status == model.VariantVendorBackorder && reads.VendorBackorders:
			status = model.VariantBackordered
		}
	}
	return status
}

// onSale reports that a product has an available variant.
func (w *World) onSale(p *model.Product) bool {
	return !p.Removed && slices.ContainsFunc(p.VariantIDs, func(id string) bool {
		v, _ := w.Variants.Get(id)
		return v.Status == model.VariantAvailable
	})
}

// RefreshBrand recomputes whether a brand has anything to sell.
func (w *World) RefreshBrand(brandID string) {
	brand, ok := w.Brands.Get(brandID)
	if !ok {
		return
	}
	available := false
	for p := range w.Products.All() {
		available = available || p.BrandID == brandID && w.onSale(p)
	}
	if available != brand.Available {
		changed := *brand
		changed.Available = available
		w.Brands.Put(brandID, &changed)
	}
}

func (w *World) StaffOf(clinicID, id string) (*model.StaffMember, bool) {
	m, ok := w.Staff.Get(id)
	return m, ok && m.ClinicID == clinicID
}

func (w *World) FirstAvailable() *model.Variant {
	for v := range w.Variants.All() {
		if v.Status == model.VariantAvailable {
			return v
		}
	}
	return nil
}

// ForgetEvents drops the events that are not kept any more, and returns their ids.
func (w *World) ForgetEvents(now time.Time, limit int) (ids []string) {
	for w.Events.Len() > 0 {
		oldest := w.Events.At(0)
		if now.Sub(oldest.CreatedAt) <= Retention && w.Events.Len() <= limit {
			break
		}
		w.Events.Remove(oldest.ID)
		ids = append(ids, oldest.ID)
	}
	return ids
}

// Retention is how long events and deliveries can be read. API section:
// "Limits".
const Retention = 30 * 24 * time.Hour
