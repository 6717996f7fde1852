package dispensarytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// WorldSize is how much there is of everything. What the default world has more of
// stays; 0 adds nothing.
type WorldSize struct {
	Clinics  int
	Patients int // of all clinics together, as everything below
	Products int
	Plans    int
	Orders   int
}

// LargeWorld is as much as a big integrator meets: 10 clinics, 10,000 patients,
// 20,000 products, 20,000 plans, 100,000 orders.
func LargeWorld() WorldSize {
	return WorldSize{Clinics: 10, Patients: 10_000, Products: 20_000, Plans: 20_000, Orders: 100_000}
}

// WithWorldSize makes a world of that size, which begins with the default one. The
// same seed and size make the same world, id by id. Each clinic has users of its
// own, see [Server.Users], and categories of its own; every second one is invited to
// the restricted brands.
func WithWorldSize(size WorldSize) Option {
	return func(s *settings) error {
		if min(size.Clinics, size.Patients, size.Products, size.Plans, size.Orders) < 0 {
			return errors.New("dispensarytest: WithWorldSize: a negative number")
		}
		s.size = size
		return nil
	}
}

// Made-up names that are no words of English, so that one in a log is a leak and
// no accident.
var (
	madeFirst = strings.Fields("Adaeze Aiko Anouk Bartek Beatriz Caoimhe Dagny Dmitri Eirlys Esra Farouk Giulia Hamza Ingrid Iskander Jelena Kofi Laszlo Leilani Malachai Mireille Nadezhda Olumide Pilar Quillon Rashida Siobhan Tariq Ulrika Vasilisa Wanjiru Xiomara Yusuf Zdenka")
	madeLast  = strings.Fields("Abernathy Bjornstad Castellanos Dlamini Eriksen Fitzwilliam Grzybowski Hashimoto Ivanenko Jankowski Kowalczyk Lindqvist Mbatha Nakamura Ogunleye Papadakis Quintanilla Rasmussen Szymanski Takahashi Uzodinma Valkenburg Wijeratne Xanthopoulos Yilmaz Zielinski")
)

// enlarge adds to a world until it has a size.
func (w *world) enlarge(size WorldSize) {
	dice := rand.New(rand.NewPCG(w.seed, 0x517e))
	for n := w.clinics.Len(); n < size.Clinics; n++ {
		w.generateClinic(n)
	}
	w.patients.Grow(size.Patients)
	w.addresses.Grow(size.Patients)
	w.patientEmails.Grow(size.Patients)
	for n := w.patients.Len(); n < size.Patients; n++ {
		w.generatePatient(n, dice)
	}
	w.products.Grow(size.Products)
	w.variants.Grow(2 * size.Products)
	for n := w.products.Len(); n < size.Products; n++ {
		w.generateProduct(n, dice)
	}
	if w.products.Len() > len(seedProducts) {
		for b := range w.brands.All() {
			w.refreshBrand(b.ID)
		}
	}
	clock := w.since()
	step := epoch.Sub(clock) / time.Duration(max(size.Orders, size.Plans, 1)+1)
	w.plans.Grow(size.Plans)
	for n := w.plans.Len(); n < size.Plans; n++ {
		w.generatePlan(clock.Add(step*time.Duration(n)), dice)
	}
	w.orders.Grow(size.Orders)
	for n := w.orders.Len(); n < size.Orders; n++ {
		w.generateOrder(clock.Add(step*time.Duration(n)), dice)
	}
}

// since is the time of the latest order: what is generated comes after.
func (w *world) since() time.Time {
	if n := w.orders.Len(); n > 0 {
		return w.orders.At(n - 1).CompletedAt
	}
	return epoch.AddDate(0, 0, -30)
}

func (w *world) generateClinic(n int) {
	host := fmt.Sprintf("clinic-%d", n+1)
	if w.region == Canada {
		host += ".ca"
	}
	clinic := &Clinic{
		ID: w.newID("clinic"), Name: fmt.Sprintf("Clinic No. %d", n+1), Discount: float64(n % 4 * 5),
		DispensaryURL: "https://" + host + ".dispensary.example/",
	}
	w.clinics.Put(clinic.ID, clinic)
	w.generateCategories(clinic.ID, n)
	if n%2 == 1 {
		w.inviteToBrands(clinic.ID)
	}
	for i := range 3 {
		first, last := madeFirst[(n*7+i)%len(madeFirst)], madeLast[(n*5+i)%len(madeLast)]
		p := &Practitioner{
			ID: w.newID("practitioner"), ClinicID: clinic.ID, FirstName: first, LastName: last,
			Email:  fmt.Sprintf("practitioner-%d@%s.example.com", i+1, host),
			TypeID: w.practitionerTypes.At((n + i) % w.practitionerTypes.Len()).ID,
		}
		w.practitioners.Put(p.ID, p)
		w.seedUser(p.ID, clinic.ID, p.Email, UserPractitioner, first+" "+last)
	}
	m := &StaffMember{ID: w.newID("staff"), ClinicID: clinic.ID, FirstName: madeFirst[n%len(madeFirst)], LastName: "Desk", Email: "frontdesk@" + host + ".example.com"}
	w.staff.Put(m.ID, m)
	w.seedUser(m.ID, clinic.ID, m.Email, UserStaff, m.FirstName+" "+m.LastName)
}

// generateCategories sorts the products of the default catalog for a clinic.
func (w *world) generateCategories(clinicID string, n int) {
	var ids []string
	for i := range 3 {
		k := &Category{ID: w.newID("category"), Name: categoryNames[(n+i*3)%len(categoryNames)], ClinicID: clinicID}
		w.categories.Put(k.ID, k)
		ids = append(ids, k.ID)
	}
	for i := range seedProducts {
		p := *w.products.At(i)
		p.CategoryIDs = append(slices.Clone(p.CategoryIDs), ids[i%len(ids)])
		w.putProduct(&p)
	}
}

// inviteToBrands opens the restricted brands to a clinic.
func (w *world) inviteToBrands(clinicID string) {
	for _, old := range w.brands.Where(func(b *Brand) bool { return b.Restricted }) {
		b := *old
		b.ClinicIDs = append(slices.Clone(b.ClinicIDs), clinicID)
		w.brands.Put(b.ID, &b)
	}
}

func (w *world) generatePatient(n int, dice *rand.Rand) {
	first, last := madeFirst[dice.IntN(len(madeFirst))], madeLast[dice.IntN(len(madeLast))]
	p := &Patient{
		ID: w.newID("patient"), ClinicID: w.clinics.At(n % w.clinics.Len()).ID, FirstName: first, LastName: last,
		Email:       fmt.Sprintf("%s.%s.%d@example.org", strings.ToLower(first), strings.ToLower(last), n),
		DateOfBirth: epoch.AddDate(-18-dice.IntN(70), -dice.IntN(12), -dice.IntN(28)).Format(time.DateOnly),
		Gender:      []string{Male, Female, X, ""}[dice.IntN(4)], Discount: float64(dice.IntN(4) * 5), Welcomed: true,
	}
	if n%2 == 0 {
		p.MetadataID = fmt.Sprintf("ehr-%d", 100_000+n)
	}
	if n%3 > 0 {
		p.MobileNumber = fmt.Sprintf("+1%d55501%02d", w.areaCode(), n%100)
	}
	w.putPatient(p)
	w.seedAddress(p.ID, n)
}

// generateProduct makes a variation of a product of the default catalog.
func (w *world) generateProduct(n int, dice *rand.Rand) {
	like := w.products.At(n % len(seedProducts))
	p := *like
	p.ID, p.Name, p.VariantIDs = w.newID("product"), fmt.Sprintf("%s No. %d", like.Name, n/len(seedProducts)+1), nil
	p.CategoryIDs = like.CategoryIDs[:1:1] // the first clinic's
	brand, _ := w.brands.Get(p.BrandID)
	for i := range 1 + dice.IntN(2) {
		status := VariantAvailable
		if dice.IntN(10) == 0 {
			status = VariantBackordered
		}
		v := w.newVariant(p.ID, brand.Prefix, i == 0, NewVariant{Units: 30 * (i + 1), MSRP: Cents(900 + dice.IntN(5000)), Status: status})
		p.VariantIDs = append(p.VariantIDs, v.ID)
	}
	w.putProduct(&p)
}

func (w *world) generatePlan(at time.Time, dice *rand.Rand) {
	patient := w.patients.At(dice.IntN(w.patients.Len()))
	practitioners := w.practitioners.Span(practitionersByClinic, patient.ClinicID).Created().All()
	p := &Plan{
		ID: w.newID("treatment_plan"), ClinicID: patient.ClinicID, State: StateActive, PatientID: patient.ID,
		PractitionerID: practitioners[dice.IntN(len(practitioners))].ID, AvailableAt: at, CreatedAt: at, UpdatedAt: at,
		Recommendations: w.recommend(dice.IntN(w.products.Len()), 1+dice.IntN(3)), Outside: dice.IntN(2) == 0,
	}
	w.plans.Put(p.ID, p)
}

// generateOrder lets a patient order what a plan says, or something else.
func (w *world) generateOrder(at time.Time, dice *rand.Rand) {
	var o *Order
	if plan := w.plans.At(dice.IntN(w.plans.Len())); dice.IntN(2) == 0 && plan.State == StateActive {
		o = &Order{ClinicID: plan.ClinicID, PatientID: plan.PatientID, PlanIDs: []string{plan.ID}, Lines: plan.lines()}
	} else {
		patient := w.patients.At(dice.IntN(w.patients.Len()))
		v := w.variants.At(dice.IntN(w.variants.Len()))
		o = &Order{ClinicID: patient.ClinicID, PatientID: patient.ID, Lines: []Line{{VariantID: v.ID, Quantity: 1 + dice.IntN(3)}}}
	}
	patient, _ := w.patients.Get(o.PatientID)
	if err := w.price(o, w.totalDiscount(patient)); err != nil {
		panic(err) // made from what there is
	}
	w.putOrder(o, at)
}
