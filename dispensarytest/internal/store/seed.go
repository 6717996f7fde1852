package store

import (
	"cmp"
	"fmt"
	"slices"
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
	w := seeder{BuildCatalog(seed, environment)}
	w.seedClinic()
	w.seedPatients()
	w.seedCare()
	return w.World
}

// BuildCatalog returns a world with the default catalog and no clinic.
func BuildCatalog(seed uint64, environment api.Environment) *World {
	w := seeder{&World{
		Seed: EnvironmentSeed(seed, environment), Environment: environment, Numbers: make(map[string]uint64),
	}}
	_ = w.index() // no row can be damaged
	w.seedTerms()
	w.seedCatalog()
	return w.World
}

// seeder adds the rows of the default world.
type seeder struct{ *World }

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

func (w seeder) seedTerms() {
	w.seedNames(&w.Allergens, "allergen", allergenNames)
	w.seedNames(&w.Ingredients, "ingredient", ingredientNames())
	w.seedNames(&w.SupplementTypes, "supplement_type", supplementNames)
	w.seedNames(&w.Certifications, "third_party_certification", certificationNames)
	for _, p := range professions {
		t := &PractitionerType{ID: w.NewID("practitioner_type"), Code: p.code, Description: p.description}
		table.Put(&w.PractitionerTypes, t)
	}
	for _, name := range categoryNames {
		k := &Category{ID: w.NewID("category"), Name: name, ClinicID: w.ID("clinic", 1)}
		table.Put(&w.Categories, k)
	}
	for i, b := range brandNames {
		row := &Brand{ID: w.NewID("brand"), Name: b.name, Prefix: b.prefix, Restricted: i == len(brandNames)-1}
		table.Put(&w.Brands, row)
	}
}

func (w seeder) seedNames(to *table.Table[*Term], kind string, names []string) {
	for _, name := range names {
		t := &Term{ID: w.NewID(kind), Name: name}
		table.Put(to, t)
	}
}

func (w seeder) seedClinic() {
	name, host, address := "Maple Hollow Integrative Clinic", "maple-hollow", ""
	if w.Environment == api.CanadaSandbox {
		name, host, address = "Birch Harbour Wellness Clinic", "birch-harbour", ".ca"
	}
	clinic := &model.Clinic{
		ID: w.NewID("clinic"), Name: name, Discount: 10,
		DispensaryURL: "https://" + host + ".dispensary.example/",
	}
	table.Put(&w.Clinics, clinic)
	mail := func(user string) string { return user + "@" + host + address + ".example.com" }
	for i, p := range []struct{ first, last string }{{"Amara", "Osei"}, {"Daniel", "Whitcombe"}} {
		w.AddColleague(model.UserPractitioner, &Colleague{
			ClinicID: clinic.ID, FirstName: p.first, LastName: p.last, Email: mail(strings.ToLower(p.first)), TypeID: w.PractitionerTypes.Rows[4-i].ID,
		}, "")
	}
	w.AddColleague(model.UserStaff, &Colleague{ClinicID: clinic.ID, FirstName: "Joan", LastName: "Pettigrew", Email: mail("frontdesk")}, "")
}

// AddColleague stores a practitioner or a staff member, with an account of this kind. An empty
// password means the default password of its kind.
func (w *World) AddColleague(kind string, c *Colleague, password string) {
	if kind == model.UserStaff {
		c.ID = w.NewID("staff")
		table.Put(&w.Staff, c)
	} else {
		c.ID = w.NewID("practitioner")
		table.Put(&w.Practitioners, c)
	}
	table.Put(&w.Users, &model.User{
		ID: c.ID, Email: c.Email, Password: cmp.Or(password, "correct-horse-"+strings.ToLower(kind)), Type: kind, Name: c.FirstName + " " + c.LastName, ClinicID: c.ClinicID,
	})
}

func (w seeder) seedPatients() {
	clinic := w.Clinics.Rows[0]
	for i, p := range []model.Patient{
		{FirstName: "Jane", LastName: "Doe", DateOfBirth: "1984-03-12", Gender: GenderFemale, MetadataID: "ehr-1001", TextNotification: true},
		{FirstName: "Samuel", LastName: "Okafor", DateOfBirth: "1971-11-02", Gender: GenderMale, Discount: 5},
		{FirstName: "Priya", LastName: "Raman", DateOfBirth: "1990-07-25", Gender: GenderFemale, Discount: 10},
		{FirstName: "Alex", LastName: "Tremblay", Gender: GenderX},
		{FirstName: "Walter", LastName: "Nguyen", DateOfBirth: "1958-01-30", Gender: GenderMale},
	} {
		p.ID, p.ClinicID, p.Welcomed = w.NewID("patient"), clinic.ID, true
		p.Email = strings.ToLower(p.FirstName+"."+p.LastName) + "@example.org"
		w.putPatient(&p, i, i != 3, 20+i)
	}
}

// putPatient stores a patient with an address and, if reachable is set, a mobile number.
func (w seeder) putPatient(p *model.Patient, i int, reachable bool, extension int) {
	areaCode := 503
	if w.Environment == api.CanadaSandbox {
		areaCode = 613
	}
	if reachable {
		p.MobileNumber = fmt.Sprintf("+1%d55501%02d", areaCode, extension)
	}
	table.Put(&w.Patients, p)
	w.seedAddress(p.ID, i)
}

func (w seeder) seedAddress(patientID string, i int) {
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
	table.Put(&w.Addresses, a)
}

// seedCare adds protocols, a few past plans and their orders.
func (w seeder) seedCare() {
	first, second := w.Practitioners.Rows[0], w.Practitioners.Rows[1]
	product := w.Products.Rows[2]
	custom := &CustomDosage{
		ID: CustomDosageID(first.ID, product.ID), PractitionerID: first.ID, ProductID: product.ID,
		Dosage: model.Dosage{Amount: "2", Frequency: "every morning", Duration: "ongoing", Format: product.Dosage.Format, AdditionalInfo: "Take with water, before breakfast."},
	}
	table.Put(&w.CustomDosages, custom)
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
		table.Put(&w.Protocols, &p)
	}
	for i := range 3 {
		patient, at := w.Patients.Rows[i], Epoch.AddDate(0, 0, -40+i*7)
		plan := &model.Plan{
			ID: w.NewID("treatment_plan"), ClinicID: patient.ClinicID, State: model.PlanStateActive, PatientID: patient.ID, PractitionerID: first.ID,
			AvailableAt: at, CreatedAt: at, UpdatedAt: at, Recommendations: w.recommend(i*3, 2), Outside: i > 0,
		}
		table.Put(&w.Plans, plan)
		order := &model.Order{ClinicID: plan.ClinicID, PatientID: patient.ID, PlanIDs: []string{plan.ID}, Lines: LinesOf(plan.Recommendations)}
		if err := w.Price(order, w.TotalDiscount(patient)); err != nil {
			panic(err)
		}
		w.PutOrder(order, at.Add(26*time.Hour))
	}
}

// recommend returns n recommendations of available variants.
func (w seeder) recommend(from, n int) []model.Recommendation {
	var picked []model.Recommendation
	for seat := from; len(picked) < n; seat++ {
		p := w.Products.Rows[seat%len(w.Products.Rows)]
		v, _ := table.Get(w.Variants, p.VariantIDs[0])
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

// seedProduct is a product of the default catalog. Its numbers are indexes into the name lists
// of the seed.
type seedProduct struct {
	name        string
	brand       int
	kind        int // supplement type
	category    int
	ingredients string      // separated by commas
	format      string      // of the dosage (its plural is the unit of measure)
	units       []int       // one variant each
	price       model.Cents // of the first variant
	status      string      // of all variants, or empty for available
}

// noStatus marks variants with the status null.
const noStatus = "null"

var seedProducts = []seedProduct{
	{"Acetyl-L-Carnitine 500", 2, 0, 2, "Acetyl-L-Carnitine", "capsule", []int{60, 120}, 2850, ""},
	{"Adaptogen Balance", 1, 1, 6, "Ashwagandha,Rhodiola,Holy Basil", "capsule", []int{60}, 3195, ""},
	{"Ashwagandha Root", 1, 1, 6, "Ashwagandha", "capsule", []int{60, 120}, 2290, ""},
	{"B-Complex Active", 3, 7, 2, "Vitamin B6,Vitamin B12,Folate", "capsule", []int{60, 180}, 1880, ""},
	{"Berberine Plus", 6, 1, 4, "Berberine", "capsule", []int{60}, 3475, ""},
	{"Bone Foundation", 4, 4, 0, "Calcium,Vitamin D3,Vitamin K2", "tablet", []int{90, 180}, 2640, ""},
	{"Calm Magnesium Powder", 5, 4, 6, "Magnesium", "powder", []int{30}, 2399, ""},
	{"Chamomile Evening Drops", 1, 1, 7, "Chamomile", "drop", []int{30}, 1525, ""},
	{"Children's Chewable Multi", 3, 7, 1, "Vitamin A,Vitamin C,Vitamin D3", "chewable", []int{60, 120}, 1750, ""},
	{"Coenzyme Q10 100", 2, 7, 4, "Coenzyme Q10", "gel", []int{30, 60}, 3660, ""},
	{"Collagen Peptides", 4, 6, 0, "Collagen", "powder", []int{28, 56}, 4210, ""},
	{"Curcumin Phytosome", 6, 1, 0, "Turmeric", "capsule", []int{60, 120}, 4450, ""},
	{"Daily Greens", 5, 1, 1, "Spirulina,Chlorella", "powder", []int{30}, 3999, model.VariantBackordered},
	{"Digestive Enzymes Ultra", 0, 2, 3, "Amylase,Lipase,Protease", "capsule", []int{90, 180}, 3325, ""},
	{"Echinacea Tincture", 1, 1, 5, "Echinacea", "liquid", []int{50}, 1690, ""},
	{"Elderberry Lozenges", 1, 1, 5, "Elderberry,Zinc", "lozenge", []int{24}, 1245, ""},
	{"Electrolyte Packets", 5, 4, 2, "Magnesium,Potassium,Sodium", "packet", []int{20, 40}, 2150, ""},
	{"Fish Oil Concentrate", 5, 3, 4, "EPA,DHA", "gel", []int{60, 120, 240}, 2780, ""},
	{"Folate 800", 3, 7, 1, "Folate", "capsule", []int{90}, 1399, ""},
	{"GABA Calm", 2, 0, 6, "GABA,L-Theanine", "chewable", []int{60}, 2105, ""},
	{"Ginger & Peppermint", 1, 2, 3, "Ginger,Peppermint", "gel", []int{60}, 1830, ""},
	{"Glucosamine Move", 4, 0, 0, "Glucosamine,MSM", "tablet", []int{120}, 2975, ""},
	{"Glutamine Powder", 0, 0, 3, "L-Glutamine", "powder", []int{42, 84}, 3120, ""},
	{"Iron Gentle", 3, 4, 2, "Iron,Vitamin C", "capsule", []int{90}, 1580, ""},
	{"L-Theanine 200", 2, 0, 6, "L-Theanine", "capsule", []int{60, 120}, 2360, ""},
	{"Lavender Night Gels", 1, 1, 7, "Lavender", "gel", []int{30}, 1975, model.VariantUnavailable},
	{"Liver Support", 6, 1, 1, "Milk Thistle,Dandelion", "capsule", []int{90}, 2890, ""},
	{"Magnesium Glycinate", 5, 4, 7, "Magnesium", "capsule", []int{90, 180}, 2260, ""},
	{"Melatonin Strips", 6, 0, 7, "Melatonin", "strip", []int{30}, 1495, ""},
	{"Mushroom Defense", 1, 1, 5, "Reishi,Turkey Tail", "capsule", []int{60}, 3880, ""},
	{"N-Acetyl Cysteine 600", 2, 0, 5, "N-Acetyl Cysteine", "capsule", []int{60, 120}, 2140, ""},
	{"Omega-3 Vegan Algae", 0, 3, 4, "DHA,EPA", "gel", []int{60}, 3590, ""},
	{"Plant Protein Vanilla", 4, 6, 1, "Pea Protein", "powder", []int{15, 30}, 4799, ""},
	{"Prenatal Complete", 3, 7, 1, "Folate,Iron,Iodine", "tablet", []int{90, 180}, 3450, ""},
	{"Probiotic 50 Billion", 0, 5, 3, "Lactobacillus,Bifidobacterium", "capsule", []int{30, 60}, 4625, ""},
	{"Probiotic Kids", 0, 5, 3, "Lactobacillus", "chewable", []int{30}, 2575, ""},
	{"Quercetin & Bromelain", 6, 1, 5, "Quercetin,Bromelain", "capsule", []int{60}, 3265, ""},
	{"Research Blend Q", 7, 1, 1, "Quercetin,Resveratrol", "capsule", []int{60}, 8900, noStatus},
	{"Selenium 200", 2, 4, 5, "Selenium", "capsule", []int{90}, 1190, model.VariantDiscontinued},
	{"Sleep Formula", 6, 0, 7, "GABA,Melatonin,L-Theanine", "capsule", []int{60}, 2999, ""},
	{"Vitamin C Buffered", 3, 7, 5, "Vitamin C", "tablet", []int{90, 180}, 1725, ""},
	{"Vitamin D3 + K2 Drops", 5, 7, 0, "Vitamin D3,Vitamin K2", "drop", []int{30}, 2195, ""},
	{"Vitamin D3 5000", 3, 7, 5, "Vitamin D3", "gel", []int{60, 120}, 1560, ""},
	{"Zinc Picolinate", 2, 4, 5, "Zinc", "capsule", []int{60, 180}, 1320, ""},
}

// ingredientNames returns all ingredients of the catalog, sorted.
func ingredientNames() []string {
	var names []string
	for _, p := range seedProducts {
		names = append(names, strings.Split(p.ingredients, ",")...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w seeder) seedCatalog() {
	byName := make(map[string]string)
	for _, t := range w.Ingredients.Rows {
		byName[t.Name] = t.ID
	}
	for i, line := range seedProducts {
		brand := w.Brands.Rows[line.brand]
		p := &model.Product{
			ID: w.NewID("product"), Name: line.name, BrandID: brand.ID, SupplementTypeID: w.SupplementTypes.Rows[line.kind].ID,
			DescriptionHTML:  fmt.Sprintf("<p>%s from %s, with %s.</p>", line.name, brand.Name, strings.ReplaceAll(line.ingredients, ",", ", ")),
			Dosage:           line.dosage(),
			CategoryIDs:      []string{w.Categories.Rows[line.category].ID},
			AllergenIDs:      pick(w.Allergens, i, 3),
			CertificationIDs: pick(w.Certifications, i, 2),
		}
		for name := range strings.SplitSeq(line.ingredients, ",") {
			p.IngredientIDs = append(p.IngredientIDs, byName[name])
		}
		for n, units := range line.units {
			v := w.NewVariant(p.ID, brand.Prefix, n == 0, model.VariantCreate{
				Units: units, UnitOfMeasure: line.format + "s", Status: line.status,
				// Bigger packs cost less per unit.
				MSRP: line.price * model.Cents(10+9*(units-line.units[0])/line.units[0]) / 10,
			})
			if n > 0 {
				leaveOut(v, len(w.Variants.Rows))
			}
			p.VariantIDs = append(p.VariantIDs, v.ID)
		}
		if slices.Contains([]string{model.VariantDiscontinued, model.VariantUnavailable, noStatus}, line.status) {
			w.bare(p)
		}
		w.PutProduct(p)
	}
	for _, b := range w.Brands.Rows {
		w.RefreshBrand(b.ID)
	}
}

// leaveOut clears one of the five nullable values of a variant, a different one for each n.
// Primary variants of products on sale keep theirs.
func leaveOut(v *model.Variant, n int) {
	switch n % 5 {
	case 0:
		v.Units = 0
	case 1:
		v.UnitOfMeasure = ""
	case 2:
		v.UPC = ""
	case 3:
		v.SupplierSKU = ""
	default:
		v.Status = ""
	}
}

// bare clears all nullable values of a product that is not on sale, including its description,
// so that lists also contain nulls.
func (w seeder) bare(p *model.Product) {
	p.DescriptionHTML = ""
	for _, v := range w.ProductVariants(p) {
		v.Units, v.UnitOfMeasure, v.UPC, v.SupplierSKU = 0, "", "", ""
		if v.Status == noStatus {
			v.Status = ""
		}
	}
}

func (p seedProduct) dosage() model.Dosage {
	d := model.Dosage{Amount: "1", Frequency: "once per day", Format: p.format, AdditionalInfo: "Take with food."}
	switch {
	case p.units[0] >= 90:
		d.Amount, d.Frequency, d.Duration = "1-2", "twice per day", "30 days"
	case p.category == 7:
		d.Frequency, d.Duration = "every night", "as needed"
	}
	return d
}

// pick returns about every n-th row, in a different pattern for each product.
func pick(rows table.Table[*Term], at, n int) []string {
	var ids []string
	for i := range len(rows.Rows) {
		if (i+at)%n == 0 {
			ids = append(ids, rows.Rows[i].ID)
		}
	}
	return ids
}
