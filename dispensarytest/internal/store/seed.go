package store

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// BuildWorld returns a world with a small realistic clinic and catalog. All people are made
// up. Email addresses end in example.com or example.org, and phone numbers are 555-01xx.
func BuildWorld(seed uint64, environment api.Environment) *World {
	w := BuildCatalog(seed, environment)
	w.seedClinic()
	w.seedPatients()
	w.seedCare()
	return w
}

// BuildCatalog returns a world with the default catalog and no clinic.
func BuildCatalog(seed uint64, environment api.Environment) *World {
	w := &World{
		Seed: EnvironmentSeed(seed, environment), Environment: environment, Numbers: make(map[string]uint64),
		LastEvents: make(map[string]time.Time),
	}
	w.seedTerms()
	w.seedCatalog()
	return w
}

var (
	allergenNames      = []string{"Dairy Free", "Egg Free", "Gluten Free", "Nut Free", "Shellfish Free", "Soy Free"}
	certificationNames = []string{"Heavy Metal Tested", "NSF Style Certified", "Organic Certified", "Vegan Certified"}
	supplementNames    = []string{"Amino Acids", "Botanicals", "Digestive Health", "Essential Fatty Acids", "Minerals", "Probiotics", "Proteins", "Vitamins"}
	categoryNames      = []string{"Bone & Joint", "Daily Essentials", "Energy", "Gut Health", "Heart Health", "Immune Support", "Mood & Stress", "Sleep"}
	brandNames         = []struct{ name, prefix string }{
		{"Alder & Rye", "ALR"}, {"Bluefern Botanics", "BFB"}, {"Clearwell Labs", "CWL"}, {"Larkspur Nutrition", "LSN"},
		{"Meridian Mills", "MRM"}, {"Northbay Naturals", "NBN"}, {"Stonecrop Sciences", "STC"}, {"Quarry Lane (by invitation)", "QRL"},
	}
	professions = []struct{ code, description string }{
		{"DC", "Chiropractor"}, {"DPT", "Physical Therapist"}, {"LAc", "Acupuncturist"}, {"MD", "Medical Doctor"},
		{"ND", "Naturopathic Doctor"}, {"NP", "Nurse Practitioner"}, {"RD", "Registered Dietitian"},
	}
)

func (w *World) seedTerms() {
	w.seedNames(&w.Allergens, "allergen", allergenNames)
	w.seedNames(&w.Ingredients, "ingredient", ingredientNames())
	w.seedNames(&w.SupplementTypes, "supplement_type", supplementNames)
	w.seedNames(&w.Certifications, "third_party_certification", certificationNames)
	for _, p := range professions {
		t := &PractitionerType{ID: w.NewID("practitioner_type"), Code: p.code, Description: p.description}
		table.Put(&w.PractitionerTypes, t.ID, t)
	}
	for _, name := range categoryNames {
		k := &Category{ID: w.NewID("category"), Name: name, ClinicID: w.ID("clinic", 1)}
		table.Put(&w.Categories, k.ID, k)
	}
	for i, b := range brandNames {
		row := &Brand{ID: w.NewID("brand"), Name: b.name, Prefix: b.prefix, Restricted: i == len(brandNames)-1}
		table.Put(&w.Brands, row.ID, row)
	}
}

func (w *World) seedNames(to *table.Table[*Term], kind string, names []string) {
	for _, name := range names {
		t := &Term{ID: w.NewID(kind), Name: name}
		table.Put(to, t.ID, t)
	}
}

func (w *World) seedClinic() {
	name, host, address := "Maple Hollow Integrative Clinic", "maple-hollow", ""
	if w.Environment == api.CanadaSandbox {
		name, host, address = "Birch Harbour Wellness Clinic", "birch-harbour", ".ca"
	}
	clinic := &model.Clinic{
		ID: w.NewID("clinic"), Name: name, Discount: 10,
		DispensaryURL: "https://" + host + ".dispensary.example/",
	}
	table.Put(&w.Clinics, clinic.ID, clinic)
	mail := func(user string) string { return user + "@" + host + address + ".example.com" }
	for i, p := range []struct{ first, last string }{{"Amara", "Osei"}, {"Daniel", "Whitcombe"}} {
		row := &model.Practitioner{
			ID: w.NewID("practitioner"), ClinicID: clinic.ID, FirstName: p.first, LastName: p.last,
			Email: mail(strings.ToLower(p.first)), TypeID: table.At(w.PractitionerTypes, 4-i).ID,
		}
		table.Put(&w.Practitioners, row.ID, row)
		w.seedUser(row.ID, clinic.ID, row.Email, model.UserPractitioner, p.first+" "+p.last)
	}
	m := &StaffMember{ID: w.NewID("staff"), ClinicID: clinic.ID, FirstName: "Joan", LastName: "Pettigrew", Email: mail("frontdesk")}
	table.Put(&w.Staff, m.ID, m)
	w.seedUser(m.ID, clinic.ID, m.Email, model.UserStaff, "Joan Pettigrew")
}

func (w *World) seedUser(id, clinicID, email, kind, name string) {
	w.AddUser(id, clinicID, email, kind, name, "")
}

// AddUser creates the account of a practitioner or staff member. An empty password means the
// default password of its kind.
func (w *World) AddUser(id, clinicID, email, kind, name, password string) {
	table.Put(&w.Users, id, &model.User{
		ID: id, Email: email, Password: cmp.Or(password, "correct-horse-"+strings.ToLower(kind)), Type: kind, Name: name, ClinicID: clinicID,
	})
}

func (w *World) seedPatients() {
	clinic := table.At(w.Clinics, 0)
	for i, p := range []model.Patient{
		{FirstName: "Jane", LastName: "Doe", DateOfBirth: "1984-03-12", Gender: GenderFemale, MetadataID: "ehr-1001", TextNotification: true},
		{FirstName: "Samuel", LastName: "Okafor", DateOfBirth: "1971-11-02", Gender: GenderMale, Discount: 5},
		{FirstName: "Priya", LastName: "Raman", DateOfBirth: "1990-07-25", Gender: GenderFemale, Discount: 10},
		{FirstName: "Alex", LastName: "Tremblay", Gender: GenderX},
		{FirstName: "Walter", LastName: "Nguyen", DateOfBirth: "1958-01-30", Gender: GenderMale},
	} {
		p.ID, p.ClinicID, p.Welcomed = w.NewID("patient"), clinic.ID, true
		p.Email = strings.ToLower(p.FirstName+"."+p.LastName) + "@example.org"
		if i != 3 {
			p.MobileNumber = fmt.Sprintf("+1%d55501%02d", w.areaCode(), 20+i)
		}
		table.Put(&w.Patients, p.ID, &p)
		w.seedAddress(p.ID, i)
	}
}

func (w *World) areaCode() int {
	if w.Environment == api.CanadaSandbox {
		return 613
	}
	return 503
}

func (w *World) seedAddress(patientID string, i int) {
	a := &Address{
		ID: w.NewID("address"), PatientID: patientID, Address1: fmt.Sprintf("%d Example Street", 100+i*12),
		Zipcode: fmt.Sprintf("97%03d", 201+i), City: "Portland", State: "OR", Country: "United States",
	}
	if w.Environment == api.CanadaSandbox {
		a.Zipcode, a.City, a.State, a.Country = fmt.Sprintf("K1A 0B%d", i+1), "Ottawa", "ON", "Canada"
	}
	if i%2 == 1 {
		a.Address2 = fmt.Sprintf("Unit %d", i+3)
	}
	table.Put(&w.Addresses, a.ID, a)
}

// seedCare adds protocols, a few past plans and their orders.
func (w *World) seedCare() {
	first, second := table.At(w.Practitioners, 0), table.At(w.Practitioners, 1)
	product := table.At(w.Products, 2)
	custom := &CustomDosage{
		ID: CustomDosageID(first.ID, product.ID), PractitionerID: first.ID, ProductID: product.ID,
		Dosage: model.Dosage{Amount: "2", Frequency: "every morning", Duration: "ongoing", Format: product.Dosage.Format, AdditionalInfo: "Take with water, before breakfast."},
	}
	table.Put(&w.CustomDosages, custom.ID, custom)
	for i, p := range []model.Protocol{
		{Name: "Better Sleep", State: model.PlanStateActive, PractitionerID: first.ID, Ownership: "owned", PersonalMessage: "Start two hours before bed."},
		{Name: "Gut Reset", State: model.PlanStateActive, PractitionerID: first.ID, Ownership: "shared"},
		{Name: "Joint Comfort", State: model.PlanStateDraft, PractitionerID: first.ID, Ownership: "owned"},
		{Name: "Winter Immunity", State: model.PlanStateActive, PractitionerID: second.ID, Ownership: "shared"},
		{Name: "Old Energy Plan", State: model.PlanStateCanceled, PractitionerID: second.ID, Ownership: "owned"},
	} {
		p.ID = w.NewID("protocol")
		for _, r := range w.recommend(i*5, 2) {
			p.Recommendations = append(p.Recommendations, model.ProtocolRecommendation{
				VariantID: r.VariantID, Refill: r.Refill, Dosage: *r.Dosage, Permutations: "with food", Quantity: r.UnitsToPurchase,
			})
		}
		table.Put(&w.Protocols, p.ID, &p)
	}
	for i := range 3 {
		patient, at := table.At(w.Patients, i), Epoch.AddDate(0, 0, -40+i*7)
		plan := &model.Plan{
			ID: w.NewID("treatment_plan"), ClinicID: patient.ClinicID, State: model.PlanStateActive, PatientID: patient.ID, PractitionerID: first.ID,
			AvailableAt: at, CreatedAt: at, UpdatedAt: at, Recommendations: w.recommend(i*3, 2), Outside: i > 0,
		}
		table.Put(&w.Plans, plan.ID, plan)
		order := &model.Order{ClinicID: plan.ClinicID, PatientID: patient.ID, PlanIDs: []string{plan.ID}, Lines: LinesOf(plan.Recommendations)}
		if err := w.Price(order, w.TotalDiscount(patient)); err != nil {
			panic(err)
		}
		w.PutOrder(order, at.Add(26*time.Hour))
	}
}

// recommend returns n recommendations of available variants.
func (w *World) recommend(from, n int) []model.Recommendation {
	var picked []model.Recommendation
	for seat := from; len(picked) < n; seat++ {
		p := table.At(w.Products, seat%len(w.Products.Rows))
		v, _ := w.Variants.Rows[p.VariantIDs[0]]
		if v.Status != model.VariantAvailable {
			continue
		}
		dosage := p.Dosage
		picked = append(picked, model.Recommendation{VariantID: v.ID, UnitsToPurchase: 1 + len(picked), Refill: len(picked) == 0, Dosage: &dosage})
	}
	return picked
}

// EnvironmentSeed returns a different seed for each of the two sandboxes, so their ids and
// secrets differ.
func EnvironmentSeed(seed uint64, environment api.Environment) uint64 {
	if environment == api.CanadaSandbox {
		return ids.Mix(seed ^ 0xca)
	}
	return seed
}
