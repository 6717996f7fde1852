package store

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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

	Catalog
	Categories    table.Table[*Category]
	CustomDosages table.Table[*CustomDosage]

	Clinics      table.Table[*model.Clinic]
	Integrations table.Table[*Integration]
	People
	Plans     table.Table[*model.Plan]
	Protocols table.Table[*model.Protocol]
	Orders    table.Table[*model.Order]
	Events    table.Table[*model.Event]
	Carts     table.Table[*Cart]

	// LastEvent is the time of the last event, in milliseconds, and LastObjects are the objects of
	// the events at this time.
	LastEvent   time.Time
	LastObjects map[string]bool
}

// Cart contains the lines that a patient is about to order.
type Cart struct {
	PatientID string
	PlanID    string
	Lines     []model.Line
}

// index indexes the rows of a new or decoded world. It returns an error if rows are damaged.
func (w *World) index() error {
	err := errors.Join(
		table.Index(&w.Allergens, describeTerm), table.Index(&w.Ingredients, describeTerm),
		table.Index(&w.SupplementTypes, describeTerm), table.Index(&w.Certifications, describeTerm),
		table.Index(&w.PractitionerTypes, func(t *PractitionerType) table.Entry { return table.Entry{ID: t.ID} }),
		table.Index(&w.Brands, func(b *Brand) table.Entry { return table.Entry{ID: b.ID} }),
		table.Index(&w.Products, describeProduct),
		table.Index(&w.Variants, func(v *model.Variant) table.Entry { return table.Entry{ID: v.ID} }),
		table.Index(&w.Categories, func(k *Category) table.Entry { return entry(k.ID, ByClinic, k.ClinicID) }),
		table.Index(&w.CustomDosages, func(d *CustomDosage) table.Entry { return table.Entry{ID: d.ID} }),
		table.Index(&w.Clinics, func(c *model.Clinic) table.Entry { return table.Entry{ID: c.ID} }),
		table.Index(&w.Integrations, func(i *Integration) table.Entry { return entry(i.ID, ByClinic, i.ClinicID, byKey, i.Key) }),
		table.Index(&w.Patients, func(p *model.Patient) table.Entry {
			e := person(p.ID, p.ClinicID, p.Email, p.MetadataID)
			e.Text = p.FirstName + "\n" + p.LastName + "\n" + p.Email
			return e
		}),
		table.Index(&w.Practitioners, describeColleague), table.Index(&w.Staff, describeColleague),
		table.Index(&w.Addresses, func(a *Address) table.Entry { return entry(a.ID, ByPatient, a.PatientID) }),
		table.Index(&w.Users, func(u *model.User) table.Entry { return table.Entry{ID: u.ID} }),
		table.Index(&w.Plans, func(p *model.Plan) table.Entry {
			return entry(p.ID, ByPatient, p.PatientID, ByMetadata(p.ClinicID), p.MetadataID)
		}),
		table.Index(&w.Protocols, func(p *model.Protocol) table.Entry { return entry(p.ID, ByPractitioner, p.PractitionerID) }),
		table.Index(&w.Orders, func(o *model.Order) table.Entry { return entry(o.ID, ByClinic, o.ClinicID, ByPatient, o.PatientID) }),
		table.Index(&w.Events, func(e *model.Event) table.Entry {
			return table.Entry{ID: e.ID, Keys: []table.Key{{Field: EventGroup(e.Type), Value: e.ClinicID}}}
		}),
		table.Index(&w.Carts, func(c *Cart) table.Entry { return table.Entry{ID: c.PatientID} }),
	)
	for _, p := range w.Products.Rows {
		w.PutProduct(p)
	}
	return err
}

// Fields of the keys of rows, for [table.Of].
const (
	ByClinic       = "clinic"
	ByPatient      = "patient"
	ByPractitioner = "practitioner"
	ByCategory     = "category" // products in the catalog
	Listed         = "listed"   // products in the catalog, with the value ""
	byBrand        = "brand"
	byEmail        = "email"
	byKey          = "key"
)

// ByMetadata is the field of the integrator's identifiers in a clinic.
func ByMetadata(clinicID string) string { return "metadata " + clinicID }

// EventGroup returns the object of an event type, such as "treatment_plan". It is the field of
// events, and their value is the clinic.
func EventGroup(kind string) string {
	group, _, _ := strings.Cut(kind, ".")
	return group
}

// entry describes a row with pairs of a field and a value. It omits empty values.
func entry(id string, pairs ...string) table.Entry {
	e := table.Entry{ID: id, Keys: make([]table.Key, 0, len(pairs)/2)}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			e.Keys = append(e.Keys, table.Key{Field: pairs[i], Value: pairs[i+1]})
		}
	}
	return e
}

func person(id, clinicID, email, metadataID string) table.Entry {
	return entry(id, ByClinic, clinicID, byEmail, EmailKey(email), ByMetadata(clinicID), metadataID)
}

func describeColleague(c *Colleague) table.Entry {
	return person(c.ID, c.ClinicID, c.Email, c.MetadataID)
}

func describeTerm(t *Term) table.Entry { return table.Entry{ID: t.ID} }

func describeProduct(p *model.Product) table.Entry {
	if p.Removed {
		return entry(p.ID, byBrand, p.BrandID)
	}
	e := table.Entry{ID: p.ID, Keys: []table.Key{{Field: Listed}, {Field: byBrand, Value: p.BrandID}}}
	for _, id := range p.CategoryIDs {
		e.Keys = append(e.Keys, table.Key{Field: ByCategory, Value: id})
	}
	return e
}

// Clone returns a copy to change. The original must not change anymore.
func (w *World) Clone() *World {
	copied := *w
	copied.Numbers, copied.LastObjects = maps.Clone(w.Numbers), maps.Clone(w.LastObjects)
	return &copied
}

// Check indexes a decoded world. It returns an error if the world is damaged.
func (w *World) Check() error {
	if w == nil || len(w.Clinics.Rows) == 0 || w.Numbers == nil {
		return errors.New("it has no world")
	}
	return w.index()
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

// CategoryOf returns a category of the clinic. Like the methods below, it returns false if the row
// belongs to another clinic.
func (w *World) CategoryOf(clinicID, id string) (*Category, bool) {
	row, known := table.Get(w.Categories, id)
	return row, known && row.ClinicID == clinicID
}

func (w *World) PlanOf(clinicID, id string) (*model.Plan, bool) {
	row, known := table.Get(w.Plans, id)
	return row, known && row.ClinicID == clinicID
}

func (w *World) OrderOf(clinicID, id string) (*model.Order, bool) {
	row, known := table.Get(w.Orders, id)
	return row, known && row.ClinicID == clinicID
}

// ForgetEvents deletes events older than [Retention], and the oldest beyond limit.
func (w *World) ForgetEvents(now time.Time, limit int) {
	for len(w.Events.Rows) > 0 {
		oldest := w.Events.Rows[0]
		if now.Sub(oldest.CreatedAt) <= Retention && len(w.Events.Rows) <= limit {
			break
		}
		table.Remove(&w.Events, oldest.ID)
	}
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

func CustomDosageID(practitionerID, productID string) string { return practitionerID + "/" + productID }

// Ownerships of protocols. A practitioner sees the practitioner's own protocols and the shared
// protocols of colleagues in the clinic.
const (
	ProtocolOwned  = "owned"
	ProtocolShared = "shared"
)
