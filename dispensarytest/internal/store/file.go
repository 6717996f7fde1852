package store

import (
	"maps"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// File is what the world has that the one it was made from has not.
func (w *World) File() WorldFile {
	before := w.Base
	return WorldFile{
		Numbers:           w.Numbers,
		Allergens:         table.Changed(&w.Allergens, &before.Allergens),
		Ingredients:       table.Changed(&w.Ingredients, &before.Ingredients),
		SupplementTypes:   table.Changed(&w.SupplementTypes, &before.SupplementTypes),
		Certifications:    table.Changed(&w.Certifications, &before.Certifications),
		PractitionerTypes: table.Changed(&w.PractitionerTypes, &before.PractitionerTypes),
		Brands:            table.Changed(&w.Brands, &before.Brands),
		Products:          table.Changed(&w.Products, &before.Products),
		Variants:          table.Changed(&w.Variants, &before.Variants),
		Categories:        table.Changed(&w.Categories, &before.Categories),
		Clinics:           table.Changed(&w.Clinics, &before.Clinics),
		Patients:          table.Changed(&w.Patients, &before.Patients),
		Practitioners:     table.Changed(&w.Practitioners, &before.Practitioners),
		Staff:             table.Changed(&w.Staff, &before.Staff),
		Addresses:         table.Changed(&w.Addresses, &before.Addresses),
		Plans:             table.Changed(&w.Plans, &before.Plans),
		Protocols:         table.Changed(&w.Protocols, &before.Protocols),
		Orders:            table.Changed(&w.Orders, &before.Orders),
		Events:            table.Changed(&w.Events, &before.Events),
		CustomDosages: table.ChangedRows(&w.CustomDosages, &before.CustomDosages, func(d *model.CustomDosage) customDosageFile {
			return customDosageFile{d.PractitionerID, d.ProductID, d.Dosage}
		}),
		Integrations: table.ChangedRows(&w.Integrations, &before.Integrations, func(i *model.Integration) integrationFile {
			return integrationFile{i.ID, i.ClinicID, i.Key, i.Activated, i.Revoked}
		}),
		Users: table.ChangedRows(&w.Users, &before.Users, func(u *model.User) UserFile { return FileUser(*u) }),
		Carts: table.ChangedRows(&w.Carts, &before.Carts, func(c *Cart) cartFile { return cartFile{c.PatientID, c.PlanID, c.Lines} }),
	}
}

// Same reports that two states of one world are the same.
func (w *World) Same(other *World) bool {
	return maps.Equal(w.Numbers, other.Numbers) && w.Allergens.Same(&other.Allergens) && w.Ingredients.Same(&other.Ingredients) &&
		w.SupplementTypes.Same(&other.SupplementTypes) && w.Certifications.Same(&other.Certifications) &&
		w.PractitionerTypes.Same(&other.PractitionerTypes) && w.Brands.Same(&other.Brands) && w.Products.Same(&other.Products) &&
		w.Variants.Same(&other.Variants) && w.Categories.Same(&other.Categories) && w.CustomDosages.Same(&other.CustomDosages) &&
		w.Clinics.Same(&other.Clinics) && w.Integrations.Same(&other.Integrations) && w.Patients.Same(&other.Patients) &&
		w.Practitioners.Same(&other.Practitioners) && w.Staff.Same(&other.Staff) && w.Addresses.Same(&other.Addresses) &&
		w.Users.Same(&other.Users) && w.Plans.Same(&other.Plans) && w.Protocols.Same(&other.Protocols) &&
		w.Orders.Same(&other.Orders) && w.Events.Same(&other.Events) && w.Carts.Same(&other.Carts)
}

// Load brings a generated world to what a file says.
func (w *World) Load(f WorldFile) {
	w.Numbers = f.Numbers
	term := func(t *model.Term) string { return t.ID }
	Fill(&w.Allergens, f.Allergens, term)
	Fill(&w.Ingredients, f.Ingredients, term)
	Fill(&w.SupplementTypes, f.SupplementTypes, term)
	Fill(&w.Certifications, f.Certifications, term)
	Fill(&w.PractitionerTypes, f.PractitionerTypes, func(t *model.PractitionerType) string { return t.ID })
	Fill(&w.Brands, f.Brands, func(b *model.Brand) string { return b.ID })
	Fill(&w.Variants, f.Variants, func(v *model.Variant) string { return v.ID })
	Fill(&w.Categories, f.Categories, func(k *model.Category) string { return k.ID })
	Fill(&w.Clinics, f.Clinics, func(c *model.Clinic) string { return c.ID })
	Fill(&w.Addresses, f.Addresses, func(a *model.Address) string { return a.ID })
	Fill(&w.Plans, f.Plans, func(p *model.Plan) string { return p.ID })
	Fill(&w.Protocols, f.Protocols, func(p *model.Protocol) string { return p.ID })
	Fill(&w.Orders, f.Orders, func(o *model.Order) string { return o.ID })
	Fill(&w.Events, f.Events, func(e *model.Event) string { return e.ID })
	Fill(&w.Products, f.Products, func(p *model.Product) string { return p.ID })
	for _, d := range f.CustomDosages {
		id := model.CustomDosageID(d.PractitionerID, d.ProductID)
		w.CustomDosages.Put(id, &model.CustomDosage{ID: id, PractitionerID: d.PractitionerID, ProductID: d.ProductID, Dosage: d.Dosage})
	}
	for _, i := range f.Integrations {
		w.Integrations.Put(i.ID, &model.Integration{ID: i.ID, ClinicID: i.ClinicID, Key: i.Key, Activated: i.Activated, Revoked: i.Revoked})
	}
	for _, c := range f.Carts {
		w.Carts.Put(c.PatientID, &Cart{PatientID: c.PatientID, PlanID: c.PlanID, Lines: c.Lines})
	}
	w.loadPeople(f)
	for e := range w.Events.All() {
		w.LastEvents[e.ObjectID] = e.CreatedAt
	}
}

// loadPeople fills in the people, whose e-mail addresses have to be unique.
func (w *World) loadPeople(f WorldFile) {
	for _, p := range f.Practitioners {
		old, _ := w.Practitioners.Get(p.ID)
		w.Practitioners.Put(p.ID, p)
		if old != nil {
			w.UserEmails.Remove(EmailKey(old.Email))
		}
	}
	for _, m := range f.Staff {
		old, _ := w.Staff.Get(m.ID)
		w.Staff.Put(m.ID, m)
		if old != nil {
			w.UserEmails.Remove(EmailKey(old.Email))
		}
	}
	for _, p := range f.Practitioners { // now that the addresses are free that were given up
		w.UserEmails.Put(EmailKey(p.Email), p.ID)
	}
	for _, m := range f.Staff {
		w.UserEmails.Put(EmailKey(m.Email), m.ID)
	}
	for _, u := range f.Users {
		user := u.Row()
		w.Users.Put(user.ID, &user)
	}
	w.loadPatients(f.Patients)
}

// loadPatients puts patients who may have an address that another one had.
func (w *World) loadPatients(patients []*model.Patient) {
	for _, p := range patients {
		if old, known := w.Patients.Get(p.ID); known {
			w.PatientEmails.Remove(EmailKey(old.Email))
		}
	}
	for _, p := range patients {
		w.PutPatient(p)
	}
	for _, p := range patients {
		w.PatientEmails.Put(EmailKey(p.Email), p.ID)
	}
}

func Fill[T any](to *table.Table[*T], rows []*T, id func(*T) string) {
	for _, row := range rows {
		to.Put(id(row), row)
	}
}

type WorldFile struct {
	Numbers           map[string]uint64
	Allergens         []*model.Term             `json:",omitempty"`
	Ingredients       []*model.Term             `json:",omitempty"`
	SupplementTypes   []*model.Term             `json:",omitempty"`
	Certifications    []*model.Term             `json:",omitempty"`
	PractitionerTypes []*model.PractitionerType `json:",omitempty"`
	Brands            []*model.Brand            `json:",omitempty"`
	Products          []*model.Product          `json:",omitempty"`
	Variants          []*model.Variant          `json:",omitempty"`
	Categories        []*model.Category         `json:",omitempty"`
	CustomDosages     []customDosageFile        `json:",omitempty"`
	Clinics           []*model.Clinic           `json:",omitempty"`
	Integrations      []integrationFile         `json:",omitempty"`
	Patients          []*model.Patient          `json:",omitempty"`
	Practitioners     []*model.Practitioner     `json:",omitempty"`
	Staff             []*model.StaffMember      `json:",omitempty"`
	Addresses         []*model.Address          `json:",omitempty"`
	Users             []UserFile                `json:",omitempty"`
	Plans             []*model.Plan             `json:",omitempty"`
	Protocols         []*model.Protocol         `json:",omitempty"`
	Orders            []*model.Order            `json:",omitempty"`
	Events            []*model.Event            `json:",omitempty"`
	Carts             []cartFile                `json:",omitempty"`
}

type customDosageFile struct {
	PractitionerID, ProductID string
	Dosage                    model.Dosage
}

type integrationFile struct {
	ID, ClinicID, Key string
	Activated         time.Time
	Revoked           bool
}

type UserFile struct {
	model.User
	ClinicID string
}

type cartFile struct {
	PatientID, PlanID string
	Lines             []model.Line
}

func FileUser(u model.User) UserFile { return UserFile{User: u, ClinicID: u.ClinicID} }

func (f UserFile) Row() model.User {
	f.User.ClinicID = f.ClinicID
	return f.User
}
