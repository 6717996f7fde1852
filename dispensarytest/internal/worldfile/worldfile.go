// Package worldfile creates a world from an integrator's file.
package worldfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/closestmatch"
)

// Build returns the world of a file: its clinics, their people and plans, and the default
// catalog with the file's products. The error joins all problems, each with its path.
func Build(content []byte, seed uint64, environment api.Environment) (*store.World, error) {
	root, err := parse(content)
	if err != nil {
		return nil, err
	}
	b := &builder{
		World: store.BuildCatalog(seed, environment), clinics: map[string]string{}, objects: map[string]*object{}, products: map[string]*model.Product{},
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
	root.end()
	return b.World, errors.Join(*root.problems...)
}

// each reads the objects of a list.
func each(o *object, name string, read func(*object)) {
	for _, one := range o.objects(name) {
		read(one)
		one.end()
	}
}

// builder adds the objects of a file to a world. Other objects refer to them by these names.
type builder struct {
	*store.World
	clinics       map[string]string  // ids, by name
	objects       map[string]*object // of clinics, by id
	practitioners map[string]*model.Practitioner
	patients      map[string]*model.Patient
	products      map[string]*model.Product
}

func (b *builder) addClinic(o *object) {
	c := &model.Clinic{Name: o.word("name"), Discount: o.percent("discount")}
	if b.clinics[c.Name] != "" {
		o.problem("name", "is the name of another clinic")
		return
	}
	b.AddClinic(c)
	b.clinics[c.Name], b.objects[c.ID] = c.ID, o
}

// clinicOf returns the id of the clinic of an object, by default the only clinic.
func (b *builder) clinicOf(o *object) string {
	name := o.text("clinic")
	switch {
	case name == "" && len(b.clinics) > 1:
		o.problem("clinic", "is empty, and there are several clinics")
	case name != "":
		return lookup(o, "clinic", "the name of a clinic in the file", b.clinics, name)
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

// lookup returns the object with a name.
func lookup[T any](o *object, member, kind string, known map[string]T, name string) (found T) {
	found, ok := known[name]
	if !ok && name != "" {
		o.problem(member, "is not "+kind)
	}
	return found
}

// emailOf returns the email address of an object, and reports a taken one.
func emailOf(o *object, taken func(email, exceptID string) bool) string {
	email := o.word("email")
	switch {
	case email == "":
	case !store.ValidEmail(email):
		o.problem("email", "is not an e-mail address")
	case taken(email, ""):
		o.problem("email", "belongs to another person in the file")
	}
	return email
}

func (b *builder) addPractitioner(o *object) {
	p := &model.Practitioner{
		ID: b.NewID("practitioner"), ClinicID: b.clinicOf(o), FirstName: o.word("first_name"), LastName: o.word("last_name"),
		Email: emailOf(o, b.UserEmailTaken), MetadataID: o.text("metadata_id"),
	}
	codes := []string{"ND"} // the default
	for _, kind := range b.PractitionerTypes.Rows {
		codes = append(codes, kind.Code)
	}
	code := o.choice("type", codes...)
	for _, kind := range b.PractitionerTypes.Rows {
		if kind.Code == code {
			p.TypeID = kind.ID
		}
	}
	table.Put(&b.Practitioners, p)
	name(b.practitioners, store.EmailKey(p.Email), p)
	b.AddUser(p.ID, p.ClinicID, p.Email, model.UserPractitioner, p.FirstName+" "+p.LastName, o.text("password"))
}

func (b *builder) addStaff(o *object) {
	m := &store.StaffMember{
		ID: b.NewID("staff"), ClinicID: b.clinicOf(o), FirstName: o.word("first_name"), LastName: o.word("last_name"),
		Email: emailOf(o, b.UserEmailTaken), MetadataID: o.text("metadata_id"),
	}
	table.Put(&b.Staff, m)
	b.AddUser(m.ID, m.ClinicID, m.Email, model.UserStaff, m.FirstName+" "+m.LastName, o.text("password"))
}

func (b *builder) addPatient(o *object) {
	p := &model.Patient{
		ID: b.NewID("patient"), ClinicID: b.clinicOf(o), FirstName: o.word("first_name"), LastName: o.word("last_name"),
		Email:        emailOf(o, b.EmailTaken),
		DateOfBirth:  o.fitting("date_of_birth", "a date (yyyy-mm-dd)", store.ValidDay),
		Gender:       o.choice("gender", "", store.GenderMale, store.GenderFemale, store.GenderX),
		MobileNumber: o.fitting("mobile_number", "a number in international form, a + and digits", store.MobileNumber.MatchString),
		Discount:     o.percent("discount"), MetadataID: o.text("metadata_id"), Welcomed: true,
	}
	table.Put(&b.Patients, p)
	name(b.patients, store.EmailKey(p.Email), p)
}

func (b *builder) addProduct(o *object) {
	p := &model.Product{ID: b.NewID("product"), Name: o.word("name"), DescriptionHTML: o.text("description")}
	brand := b.Brands.Rows[0]
	if name := o.text("brand"); name != "" {
		brand = b.brand(name)
	}
	p.BrandID, p.SupplementTypeID = brand.ID, b.SupplementTypes.Rows[0].ID
	pack := model.VariantCreate{Units: o.count("units", 60), UnitOfMeasure: o.text("unit_of_measure")}
	if price := o.text("price"); price != "" && (pack.MSRP.UnmarshalText([]byte(price)) != nil || pack.MSRP <= 0) {
		o.problem("price", "is not an amount such as 19.99")
	}
	pack.Status = o.choice("status", model.VariantAvailable, model.VariantBackordered, model.VariantDiscontinued, model.VariantUnavailable)
	p.VariantIDs = []string{b.NewVariant(p.ID, brand.Prefix, true, pack).ID}
	if b.products[p.Name] != nil {
		o.problem("name", "is the name of another product in the file")
	}
	b.products[p.Name] = p
	table.Put(&b.Products, p)
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

func (b *builder) addPlan(o *object) {
	p := &model.Plan{
		ID: b.NewID("treatment_plan"), PersonalMessage: o.text("personal_message"), MetadataID: o.text("metadata_id"),
		State: o.choice("state", model.PlanStateActive, model.PlanStateDraft, model.PlanStateCanceled),
	}
	p.Outside = p.MetadataID == "" // an application would have set its id
	p.CreatedAt = store.Epoch.AddDate(0, 0, -30).Add(time.Duration(len(b.Plans.Rows)) * time.Minute)
	p.UpdatedAt = p.CreatedAt
	if patient := lookup(o, "patient", "the e-mail address of a patient in the file", b.patients, store.EmailKey(o.word("patient"))); patient != nil {
		p.PatientID, p.ClinicID, p.PractitionerID = patient.ID, patient.ClinicID, b.FirstPractitioner(patient.ClinicID)
	}
	if by := lookup(o, "practitioner", "the e-mail address of a practitioner in the file", b.practitioners, store.EmailKey(o.text("practitioner"))); by != nil {
		if p.PractitionerID = by.ID; by.ClinicID != p.ClinicID && p.ClinicID != "" {
			o.problem("practitioner", "works at another clinic than the patient's")
		}
	}
	each(o, "products", func(line *object) {
		r := model.Recommendation{UnitsToPurchase: line.count("units", 1), Refill: member[bool](line, "refill", "true or false")}
		if product := lookup(line, "product", "the name of a product in the catalog or the file", b.products, line.word("product")); product != nil {
			r.VariantID, r.Dosage = product.VariantIDs[0], new(product.Dosage)
			p.Recommendations = append(p.Recommendations, r)
		}
	})
	switch {
	case p.State == model.PlanStateCanceled:
		store.CancelPlan(p, p.CreatedAt)
	case o.values["products"] == nil:
		o.problem("products", "is empty")
	case p.State == model.PlanStateActive:
		p.AvailableAt = p.CreatedAt
	}
	table.Put(&b.Plans, p)
}

// complete reports clinics without a practitioner, and a file without clinics.
func (b *builder) complete(root *object) {
	if len(b.Clinics.Rows) == 0 {
		root.problem("clinics", "is empty")
	}
	for _, clinic := range b.Clinics.Rows {
		if b.FirstPractitioner(clinic.ID) == "" {
			b.objects[clinic.ID].problem("name", "is not the clinic of a practitioner")
		}
	}
}

// maxText is the longest text in characters, as in the API.
const maxText = 255

// object is an object of the file. It reports problems with the path of the member, without its
// value, and remembers the members it has read.
type object struct {
	path     string // of the members, such as "patients[3]."
	values   map[string]any
	read     []string
	problems *[]error
}

// parse returns the object of a file.
func parse(content []byte) (*object, error) {
	root := &object{problems: new([]error)}
	err := json.Unmarshal(content, &root.values)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(content[:syntax.Offset], []byte("\n")), err)
	case err != nil || root.values == nil:
		return nil, errors.New("is not a JSON object")
	}
	return root, nil
}

func (o *object) problem(name, reason string) {
	*o.problems = append(*o.problems, errors.New(o.path+name+" "+reason))
}

// member returns a member of a type, or the zero value if it is absent, null or of another type.
func member[T any](o *object, name, kind string) T {
	o.read = append(o.read, name)
	value, ok := o.values[name].(T)
	if o.values[name] != nil && !ok {
		o.problem(name, "is not "+kind)
	}
	return value
}

func (o *object) text(name string) string {
	text := member[string](o, name, "a text")
	if utf8.RuneCountInString(text) > maxText {
		o.problem(name, fmt.Sprintf("is longer than %d characters", maxText))
	}
	return text
}

// word returns a required text.
func (o *object) word(name string) string {
	before := len(*o.problems)
	text := o.text(name)
	if strings.TrimSpace(text) == "" && len(*o.problems) == before {
		o.problem(name, "is empty")
	}
	return text
}

// fitting returns a text. It reports a text that does not fit.
func (o *object) fitting(name, kind string, fits func(string) bool) string {
	text := o.text(name)
	if text != "" && !fits(text) {
		o.problem(name, "is not "+kind)
	}
	return text
}

// choice returns one of several texts, by default the first.
func (o *object) choice(name string, allowed ...string) string {
	names := slices.Compact(slices.Sorted(slices.Values(allowed)))
	text := o.fitting(name, "one of "+strings.TrimPrefix(strings.Join(names, ", "), ", "), func(text string) bool { return slices.Contains(allowed, text) })
	if text == "" {
		return allowed[0]
	}
	return text
}

// percent returns a number from 0 to 100.
func (o *object) percent(name string) float64 {
	n := member[float64](o, name, "a number")
	if n < 0 || n > 100 {
		o.problem(name, "is not a number from 0 to 100")
	}
	return n
}

// count returns a whole number above 0, or fallback if it is absent.
func (o *object) count(name string, fallback int) int {
	n := member[float64](o, name, "a number")
	switch {
	case o.values[name] == nil:
		return fallback
	case n != float64(int32(n)) || n < 1:
		o.problem(name, "is not a whole number above 0")
	}
	return int(n)
}

// objects returns the objects of a list.
func (o *object) objects(name string) []*object {
	var all []*object
	for i, value := range member[[]any](o, name, "a list") {
		at := fmt.Sprintf("%s[%d]", name, i)
		values, ok := value.(map[string]any)
		if !ok {
			o.problem(at, "is not an object")
			continue
		}
		all = append(all, &object{path: o.path + at + ".", values: values, problems: o.problems})
	}
	return all
}

// end reports unread members.
func (o *object) end() {
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		if slices.Contains(o.read, name) {
			continue
		}
		reason := "does not exist"
		if near := closestmatch.To(name, o.read); near != "" {
			reason += ": did you mean " + near + "?"
		}
		o.problem(name, reason)
	}
}
