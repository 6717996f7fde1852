// Package worldfile creates a world from an integrator's file.
package worldfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Build returns the world of a file: its clinics, their people and plans, and the default
// catalog with the file's products. The error joins all problems, each with its path and
// without its value.
func Build(content []byte, seed uint64, environment api.Environment) (*store.World, error) {
	root := form.New(func(path string) string { return path })
	var syntax *json.SyntaxError
	if err := json.Unmarshal(content, new(any)); errors.As(err, &syntax) {
		return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(content[:syntax.Offset], []byte("\n")), err)
	}
	if err := root.Decode(content); err != nil {
		return nil, err
	}
	b := &builder{
		World: store.BuildCatalog(seed, environment), clinics: map[string]string{}, forms: map[string]*form.Form{}, products: map[string]*model.Product{},
		practitioners: map[string]*model.Practitioner{}, patients: map[string]*model.Patient{},
	}
	each(root, "clinics", b.addClinic)
	each(root, "practitioners", b.addPractitioner)
	each(root, "staff", b.addStaff)
	each(root, "patients", b.addPatient)
	each(root, "products", b.addProduct)
	b.nameProducts()
	each(root, "plans", b.addPlan)
	b.complete(root)
	for _, u := range root.Unread() {
		reason := "does not exist"
		if u.Near != "" {
			reason += ": did you mean " + u.Near + "?"
		}
		root.Complain(u.Name, reason)
	}
	if len(root.Errors()) > 0 {
		return nil, errors.New(strings.Join(root.Errors(), "\n"))
	}
	return b.World, nil
}

// each reads the objects of a list.
func each(f *form.Form, name string, read func(*form.Form)) {
	for _, one := range f.Objects(name).Is {
		read(one)
	}
}

// builder adds the objects of a file to a world. Other objects refer to them by these names.
type builder struct {
	*store.World
	clinics       map[string]string     // ids, by name
	forms         map[string]*form.Form // of clinics, by id
	practitioners map[string]*model.Practitioner
	patients      map[string]*model.Patient
	products      map[string]*model.Product
}

func (b *builder) addClinic(f *form.Form) {
	c := &model.Clinic{Name: f.Word("name", true).Is, Discount: f.Percent("discount").Is}
	if b.clinics[c.Name] != "" {
		f.Complain("name", "is the name of another clinic")
		return
	}
	b.AddClinic(c)
	b.clinics[c.Name], b.forms[c.ID] = c.ID, f
}

// clinicOf returns the id of the clinic of an object, by default the only clinic.
func (b *builder) clinicOf(f *form.Form) string {
	name := f.Text("clinic").Is
	switch {
	case name == "" && len(b.clinics) > 1:
		f.Complain("clinic", form.Blank+", as there are several clinics")
	case name != "":
		return lookup(f, "clinic", "the name of a clinic in the file", b.clinics, name)
	}
	for _, id := range b.clinics {
		return id
	}
	return ""
}

// name registers an object under a name for references, unless the name is taken.
func name[T any](known map[string]T, name string, one T) {
	if _, taken := known[name]; !taken {
		known[name] = one
	}
}

// free reports the address of a person if it belongs to another one.
func free(f *form.Form, taken bool) {
	if taken {
		f.Complain("email", form.Taken)
	}
}

// lookup returns the object with a name.
func lookup[T any](f *form.Form, member, kind string, known map[string]T, name string) (found T) {
	found, ok := known[name]
	if !ok && name != "" {
		f.Complain(member, "is not "+kind)
	}
	return found
}

func (b *builder) addPractitioner(f *form.Form) {
	codes := table.Map(b.PractitionerTypes.Rows, func(t *store.PractitionerType) string { return t.Code })
	code := f.Choice("type", codes...).Or("ND")
	var typeID string
	for _, kind := range b.PractitionerTypes.Rows {
		if kind.Code == code {
			typeID = kind.ID
		}
	}
	p := b.addColleague(f, model.UserPractitioner, typeID)
	name(b.practitioners, store.EmailKey(p.Email), p)
}

func (b *builder) addStaff(f *form.Form) { b.addColleague(f, model.UserStaff, "") }

func (b *builder) addColleague(f *form.Form, kind, typeID string) *store.Colleague {
	c := &store.Colleague{ClinicID: b.clinicOf(f), TypeID: typeID, MetadataID: f.Text("metadata_id").Is}
	f.Read(true, form.Person(&c.FirstName, &c.LastName, &c.Email)...)
	free(f, b.UserEmailTaken(c.Email, ""))
	b.AddColleague(kind, c, f.Text("password").Is)
	return c
}

func (b *builder) addPatient(f *form.Form) {
	p := &model.Patient{ID: b.NewID("patient"), ClinicID: b.clinicOf(f), Discount: f.Percent("discount").Is, MetadataID: f.Text("metadata_id").Is, Welcomed: true}
	f.Read(true, form.Patient(p)...)
	free(f, b.EmailTaken(p.Email, ""))
	table.Put(&b.Patients, p)
	name(b.patients, store.EmailKey(p.Email), p)
}

func (b *builder) addProduct(f *form.Form) {
	p := &model.Product{ID: b.NewID("product"), Name: f.Word("name", true).Is, DescriptionHTML: f.Prose("description").Is}
	brand := b.Brands.Rows[0]
	if name := f.Text("brand").Is; name != "" {
		brand = b.brand(name)
	}
	p.BrandID, p.SupplementTypeID = brand.ID, b.SupplementTypes.Rows[0].ID
	pack := model.VariantCreate{Units: f.Amount("units").Or(60), UnitOfMeasure: f.Text("unit_of_measure").Is}
	if price := f.Text("price").Is; price != "" && (pack.MSRP.UnmarshalText([]byte(price)) != nil || pack.MSRP <= 0) {
		f.Complain("price", "is not an amount such as 19.99")
	}
	f.Read(true, form.Status(&pack.Status))
	p.VariantIDs = []string{b.NewVariant(p.ID, brand.Prefix, true, pack).ID}
	if b.products[p.Name] != nil {
		f.Complain("name", "is the name of another product in the file")
	}
	b.products[p.Name] = p
	b.PutProduct(p)
	b.RefreshBrand(brand.ID)
}

// brand returns the brand with a name, and creates it if there is none.
func (b *builder) brand(name string) *store.Brand {
	for _, one := range b.Brands.Rows {
		if one.Name == name {
			return one
		}
	}
	made := &store.Brand{ID: b.NewID("brand"), Name: name, Prefix: "OWN"}
	table.Put(&b.Brands, made)
	return made
}

// nameProducts lets plans refer to the products of the default catalog.
func (b *builder) nameProducts() {
	for _, p := range b.Products.Rows {
		name(b.products, p.Name, p)
	}
}

func (b *builder) addPlan(f *form.Form) {
	p := &model.Plan{
		ID: b.NewID("treatment_plan"), PersonalMessage: f.Prose("personal_message").Is, MetadataID: f.Text("metadata_id").Is,
		State: f.Choice("state", model.PlanStateActive, model.PlanStateDraft, model.PlanStateCanceled).Or(model.PlanStateActive),
	}
	p.Outside = p.MetadataID == "" // an application would have set its id
	p.CreatedAt = store.Epoch.AddDate(0, 0, -30).Add(time.Duration(len(b.Plans.Rows)) * time.Minute)
	p.UpdatedAt = p.CreatedAt
	if patient := lookup(f, "patient", "the e-mail address of a patient in the file", b.patients, store.EmailKey(f.Word("patient", true).Is)); patient != nil {
		p.PatientID, p.ClinicID, p.PractitionerID = patient.ID, patient.ClinicID, b.FirstPractitioner(patient.ClinicID)
	}
	if by := lookup(f, "practitioner", "the e-mail address of a practitioner in the file", b.practitioners, store.EmailKey(f.Text("practitioner").Is)); by != nil {
		if p.PractitionerID = by.ID; by.ClinicID != p.ClinicID && p.ClinicID != "" {
			f.Complain("practitioner", "works at another clinic than the patient's")
		}
	}
	each(f, "products", func(line *form.Form) {
		r := model.Recommendation{UnitsToPurchase: line.Amount("units").Or(1), Refill: line.Truth("refill").Is}
		if product := lookup(line, "product", "the name of a product in the catalog or the file", b.products, line.Word("product", true).Is); product != nil {
			r.VariantID, r.Dosage = product.VariantIDs[0], new(product.Dosage)
			p.Recommendations = append(p.Recommendations, r)
		}
	})
	switch {
	case p.State == model.PlanStateCanceled:
		store.CancelPlan(p, p.CreatedAt)
	case p.Recommendations == nil:
		f.Complain("products", form.Blank)
	case p.State == model.PlanStateActive:
		p.AvailableAt = p.CreatedAt
	}
	table.Put(&b.Plans, p)
}

// complete reports clinics without a practitioner, and a file without clinics.
func (b *builder) complete(root *form.Form) {
	if len(b.Clinics.Rows) == 0 {
		root.Complain("clinics", form.Blank)
	}
	for _, clinic := range b.Clinics.Rows {
		if b.FirstPractitioner(clinic.ID) == "" {
			b.forms[clinic.ID].Complain("name", "is not the clinic of a practitioner")
		}
	}
}
