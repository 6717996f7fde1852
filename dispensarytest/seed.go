package dispensarytest

import (
	"fmt"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// buildWorld makes a believable little clinic and catalog. Everybody in it is
// made up: addresses end in example.com or example.org, phone numbers are
// 555-01xx.
func buildWorld(seed uint64, region Region, longIDs bool) *world {
	w := &world{seed: regionSeed(seed, region), region: region, longIDs: longIDs, numbers: make(map[string]uint64)}
	w.sortTables()
	w.seedTerms()
	w.seedCatalog()
	w.seedClinic()
	w.seedPatients()
	w.seedCare()
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

func (w *world) seedTerms() {
	w.seedNames(&w.allergens, "allergen", allergenNames)
	w.seedNames(&w.ingredients, "ingredient", ingredientNames())
	w.seedNames(&w.supplementTypes, "supplement_type", supplementNames)
	w.seedNames(&w.certifications, "third_party_certification", certificationNames)
	for _, p := range professions {
		t := &PractitionerType{ID: w.newID("practitioner_type"), Code: p.code, Description: p.description}
		w.practitionerTypes.Put(t.ID, t)
	}
	for _, name := range categoryNames {
		k := &Category{ID: w.newID("category"), Name: name, ClinicID: w.id("clinic", 1)}
		w.categories.Put(k.ID, k)
	}
	for i, b := range brandNames {
		row := &Brand{ID: w.newID("brand"), Name: b.name, Prefix: b.prefix, Restricted: i == len(brandNames)-1}
		w.brands.Put(row.ID, row)
	}
}

func (w *world) seedNames(to *table.Table[Term], kind string, names []string) {
	for _, name := range names {
		t := &Term{ID: w.newID(kind), Name: name}
		to.Put(t.ID, t)
	}
}

func (w *world) seedClinic() {
	name, host, address := "Maple Hollow Integrative Clinic", "maple-hollow", ""
	if w.region == Canada {
		name, host, address = "Birch Harbour Wellness Clinic", "birch-harbour", ".ca"
	}
	clinic := &Clinic{
		ID: w.newID("clinic"), Name: name, Discount: 10,
		DispensaryURL: "https://" + host + ".dispensary.example/",
	}
	w.clinics.Put(clinic.ID, clinic)
	mail := func(user string) string { return user + "@" + host + address + ".example.com" }
	for i, p := range []struct{ first, last string }{{"Amara", "Osei"}, {"Daniel", "Whitcombe"}} {
		row := &Practitioner{
			ID: w.newID("practitioner"), ClinicID: clinic.ID, FirstName: p.first, LastName: p.last,
			Email: mail(strings.ToLower(p.first)), TypeID: w.practitionerTypes.At(4 - i).ID,
		}
		w.practitioners.Put(row.ID, row)
		w.seedUser(row.ID, clinic.ID, row.Email, UserPractitioner, p.first+" "+p.last)
	}
	m := &StaffMember{ID: w.newID("staff"), ClinicID: clinic.ID, FirstName: "Joan", LastName: "Pettigrew", Email: mail("frontdesk")}
	w.staff.Put(m.ID, m)
	w.seedUser(m.ID, clinic.ID, m.Email, UserStaff, "Joan Pettigrew")
}

func (w *world) seedUser(id, clinicID, email, kind, name string) {
	w.moveUserEmail(id, "", email)
	w.users.Put(id, &User{ID: id, Email: email, Password: "correct-horse-" + strings.ToLower(kind), Type: kind, Name: name, clinicID: clinicID})
}

func (w *world) seedPatients() {
	clinic := w.clinics.At(0)
	for i, p := range []Patient{
		{FirstName: "Jane", LastName: "Doe", DateOfBirth: "1984-03-12", Gender: Female, MetadataID: "ehr-1001", TextNotification: true},
		{FirstName: "Samuel", LastName: "Okafor", DateOfBirth: "1971-11-02", Gender: Male, Discount: 5},
		{FirstName: "Priya", LastName: "Raman", DateOfBirth: "1990-07-25", Gender: Female, Discount: 10},
		{FirstName: "Alex", LastName: "Tremblay", Gender: X},
		{FirstName: "Walter", LastName: "Nguyen", DateOfBirth: "1958-01-30", Gender: Male},
	} {
		p.ID, p.ClinicID, p.Welcomed = w.newID("patient"), clinic.ID, true
		p.Email = strings.ToLower(p.FirstName+"."+p.LastName) + "@example.org"
		if i != 3 {
			p.MobileNumber = fmt.Sprintf("+1%d55501%02d", w.areaCode(), 20+i)
		}
		w.putPatient(&p)
		w.seedAddress(p.ID, i)
	}
}

func (w *world) areaCode() int {
	if w.region == Canada {
		return 613
	}
	return 503
}

func (w *world) seedAddress(patientID string, i int) {
	a := &Address{
		ID: w.newID("address"), PatientID: patientID, Address1: fmt.Sprintf("%d Example Street", 100+i*12),
		Zipcode: fmt.Sprintf("97%03d", 201+i), City: "Portland", State: "OR", Country: "United States",
	}
	if w.region == Canada {
		a.Zipcode, a.City, a.State, a.Country = fmt.Sprintf("K1A 0B%d", i+1), "Ottawa", "ON", "Canada"
	}
	if i%2 == 1 {
		a.Address2 = fmt.Sprintf("Unit %d", i+3)
	}
	w.addresses.Put(a.ID, a)
}

// seedCare makes protocols, a few plans of the past and their orders.
func (w *world) seedCare() {
	first, second := w.practitioners.At(0), w.practitioners.At(1)
	product := w.products.At(2)
	custom := &customDosage{
		id: customDosageID(first.ID, product.ID), practitionerID: first.ID, productID: product.ID,
		dosage: Dosage{Amount: "2", Frequency: "every morning", Duration: "ongoing", Format: product.Dosage.Format, AdditionalInfo: "Take with water, before breakfast."},
	}
	w.customDosages.Put(custom.id, custom)
	for i, p := range []Protocol{
		{Name: "Better Sleep", State: StateActive, PractitionerID: first.ID, Ownership: "owned", PersonalMessage: "Start two hours before bed."},
		{Name: "Gut Reset", State: StateActive, PractitionerID: first.ID, Ownership: "shared"},
		{Name: "Joint Comfort", State: StateDraft, PractitionerID: first.ID, Ownership: "owned"},
		{Name: "Winter Immunity", State: StateActive, PractitionerID: second.ID, Ownership: "shared"},
		{Name: "Old Energy Plan", State: StateCancelled, PractitionerID: second.ID, Ownership: "owned"},
	} {
		p.ID = w.newID("protocol")
		for _, r := range w.recommend(i*5, 2) {
			p.Recommendations = append(p.Recommendations, ProtocolRecommendation{
				VariantID: r.VariantID, Refill: r.Refill, Dosage: *r.Dosage, Permutations: "with food", Quantity: r.UnitsToPurchase,
			})
		}
		w.protocols.Put(p.ID, &p)
	}
	for i := range 3 {
		patient, at := w.patients.At(i), epoch.AddDate(0, 0, -40+i*7)
		plan := &Plan{
			ID: w.newID("treatment_plan"), ClinicID: patient.ClinicID, State: StateActive, PatientID: patient.ID, PractitionerID: first.ID,
			AvailableAt: at, CreatedAt: at, UpdatedAt: at, Recommendations: w.recommend(i*3, 2), Outside: i > 0,
		}
		w.plans.Put(plan.ID, plan)
		order := &Order{ClinicID: plan.ClinicID, PatientID: patient.ID, PlanIDs: []string{plan.ID}, Lines: plan.lines()}
		if err := w.price(order, w.totalDiscount(patient)); err != nil {
			panic(err)
		}
		w.putOrder(order, at.Add(26*time.Hour))
	}
}

// recommend picks variants that are available.
func (w *world) recommend(from, n int) []Recommendation {
	var picked []Recommendation
	for seat := from; len(picked) < n; seat++ {
		p := w.products.At(seat % w.products.Len())
		v, _ := w.variants.Get(p.VariantIDs[0])
		if v.Status != VariantAvailable {
			continue
		}
		dosage := p.Dosage
		picked = append(picked, Recommendation{VariantID: v.ID, UnitsToPurchase: 1 + len(picked), Refill: len(picked) == 0, Dosage: &dosage})
	}
	return picked
}
