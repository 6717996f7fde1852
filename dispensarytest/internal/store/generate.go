package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Made-up names. They are not English words, so such a name in a log is a leak and not a
// coincidence.
var (
	madeFirst = strings.Fields("Adaeze Aiko Anouk Bartek Beatriz Caoimhe Dagny Dmitri Eirlys Esra Farouk Giulia Hamza Ingrid Iskander Jelena Kofi Laszlo Leilani Malachai Mireille Nadezhda Olumide Pilar Quillon Rashida Siobhan Tariq Ulrika Vasilisa Wanjiru Xiomara Yusuf Zdenka")
	madeLast  = strings.Fields("Abernathy Bjornstad Castellanos Dlamini Eriksen Fitzwilliam Grzybowski Hashimoto Ivanenko Jankowski Kowalczyk Lindqvist Mbatha Nakamura Ogunleye Papadakis Quintanilla Rasmussen Szymanski Takahashi Uzodinma Valkenburg Wijeratne Xanthopoulos Yilmaz Zielinski")
)

// generator adds random rows.
type generator struct {
	seeder
	dice *rand.Rand
}

// Enlarge adds rows until the world has at least the given size.
func (w *World) Enlarge(size model.WorldSize) {
	g := generator{seeder{w}, rand.New(rand.NewPCG(w.Seed, 0x517e))}
	for n := len(w.Clinics.Rows); n < size.Clinics; n++ {
		g.generateClinic(n)
	}
	for n := len(w.Patients.Rows); n < size.Patients; n++ {
		g.generatePatient(n)
	}
	for n := len(w.Products.Rows); n < size.Products; n++ {
		g.generateProduct(n)
	}
	if len(w.Products.Rows) > len(seedProducts) {
		for _, b := range w.Brands.Rows {
			w.RefreshBrand(b.ID)
		}
	}
	clock := w.Orders.Rows[len(w.Orders.Rows)-1].CompletedAt // generated rows are later
	step := Epoch.Sub(clock) / time.Duration(max(size.Orders, size.Plans, 1)+1)
	for n := len(w.Plans.Rows); n < size.Plans; n++ {
		g.generatePlan(clock.Add(step * time.Duration(n)))
	}
	for n := len(w.Orders.Rows); n < size.Orders; n++ {
		g.generateOrder(clock.Add(step * time.Duration(n)))
	}
}

func (w generator) generateClinic(n int) {
	host := w.clinicHost(n)
	clinic := &model.Clinic{Name: fmt.Sprintf("Clinic No. %d", n+1), Discount: float64(n % 4 * 5)}
	w.AddClinic(clinic)
	for i := range 3 {
		w.AddColleague(model.UserPractitioner, &Colleague{
			ClinicID: clinic.ID, FirstName: madeFirst[(n*7+i)%len(madeFirst)], LastName: madeLast[(n*5+i)%len(madeLast)],
			Email:  fmt.Sprintf("practitioner-%d@%s.example.com", i+1, host),
			TypeID: w.PractitionerTypes.Rows[(n+i)%len(w.PractitionerTypes.Rows)].ID,
		}, "")
	}
	w.AddColleague(model.UserStaff, &Colleague{ClinicID: clinic.ID, FirstName: madeFirst[n%len(madeFirst)], LastName: "Desk", Email: "frontdesk@" + host + ".example.com"}, "")
}

// AddClinic adds a clinic with a new id. The first clinic has the categories of the catalog.
// Each other clinic gets its own, and every second one is invited to the restricted brands.
func (w *World) AddClinic(clinic *model.Clinic) {
	n := len(w.Clinics.Rows)
	clinic.ID, clinic.DispensaryURL = w.NewID("clinic"), "https://"+w.clinicHost(n)+".dispensary.example/"
	table.Put(&w.Clinics, clinic)
	if n > 0 {
		w.generateCategories(clinic.ID, n)
	}
	if n%2 == 1 {
		w.inviteToBrands(clinic.ID)
	}
}

func (w *World) clinicHost(n int) string {
	if w.Environment == api.CanadaSandbox {
		return fmt.Sprintf("clinic-%d.ca", n+1)
	}
	return fmt.Sprintf("clinic-%d", n+1)
}

// generateCategories assigns the products of the default catalog to categories of a clinic.
func (w *World) generateCategories(clinicID string, n int) {
	var ids []string
	for i := range 3 {
		k := &Category{ID: w.NewID("category"), Name: categoryNames[(n+i*3)%len(categoryNames)], ClinicID: clinicID}
		table.Put(&w.Categories, k)
		ids = append(ids, k.ID)
	}
	for i := range seedProducts {
		p := *w.Products.Rows[i]
		p.CategoryIDs = append(slices.Clone(p.CategoryIDs), ids[i%len(ids)])
		w.PutProduct(&p)
	}
}

// inviteToBrands opens the restricted brands to a clinic.
func (w *World) inviteToBrands(clinicID string) {
	for _, old := range table.Where(w.Brands.Rows, func(b *Brand) bool { return b.Restricted }) {
		b := *old
		b.ClinicIDs = append(slices.Clone(b.ClinicIDs), clinicID)
		table.Put(&w.Brands, &b)
	}
}

func (w generator) generatePatient(n int) {
	first, last := madeFirst[w.dice.IntN(len(madeFirst))], madeLast[w.dice.IntN(len(madeLast))]
	p := &model.Patient{
		ID: w.NewID("patient"), ClinicID: w.Clinics.Rows[n%len(w.Clinics.Rows)].ID, FirstName: first, LastName: last,
		Email:       fmt.Sprintf("%s.%s.%d@example.org", strings.ToLower(first), strings.ToLower(last), n),
		DateOfBirth: Epoch.AddDate(-18-w.dice.IntN(70), -w.dice.IntN(12), -w.dice.IntN(28)).Format(time.DateOnly),
		Gender:      []string{GenderMale, GenderFemale, GenderX, ""}[w.dice.IntN(4)], Discount: float64(w.dice.IntN(4) * 5), Welcomed: true,
	}
	if n%2 == 0 {
		p.MetadataID = fmt.Sprintf("ehr-%d", 100_000+n)
	}
	w.putPatient(p, n, n%3 > 0, n%100)
}

// generateProduct adds a variation of a product of the default catalog.
func (w generator) generateProduct(n int) {
	like := w.Products.Rows[n%len(seedProducts)]
	p := *like
	p.ID, p.Name, p.VariantIDs = w.NewID("product"), fmt.Sprintf("%s No. %d", like.Name, n/len(seedProducts)+1), nil
	p.CategoryIDs = like.CategoryIDs[:1:1] // the first clinic's
	brand, _ := table.Get(w.Brands, p.BrandID)
	for i := range 1 + w.dice.IntN(2) {
		status := model.VariantAvailable
		if w.dice.IntN(10) == 0 {
			status = model.VariantBackordered
		}
		if !brand.Available {
			status = model.VariantUnavailable // keeps the brand unavailable
		}
		v := w.NewVariant(p.ID, brand.Prefix, i == 0, model.VariantCreate{Units: 30 * (i + 1), MSRP: model.Cents(900 + w.dice.IntN(5000)), Status: status})
		if i > 0 {
			leaveOut(v, n)
		}
		p.VariantIDs = append(p.VariantIDs, v.ID)
	}
	w.PutProduct(&p)
}

func (w generator) generatePlan(at time.Time) {
	patient := w.Patients.Rows[w.dice.IntN(len(w.Patients.Rows))]
	practitioners := table.Of(w.Practitioners, ByClinic, patient.ClinicID)
	p := &model.Plan{
		ID: w.NewID("treatment_plan"), ClinicID: patient.ClinicID, State: model.PlanStateActive, PatientID: patient.ID,
		PractitionerID: practitioners[w.dice.IntN(len(practitioners))].ID, AvailableAt: at, CreatedAt: at, UpdatedAt: at,
		Recommendations: w.recommend(w.dice.IntN(len(w.Products.Rows)), 1+w.dice.IntN(3)), Outside: w.dice.IntN(2) == 0,
	}
	table.Put(&w.Plans, p)
}

// generateOrder adds a patient's order of a plan's recommendations or of another product.
func (w generator) generateOrder(at time.Time) {
	var o *model.Order
	if plan := w.Plans.Rows[w.dice.IntN(len(w.Plans.Rows))]; w.dice.IntN(2) == 0 && plan.State == model.PlanStateActive {
		o = &model.Order{ClinicID: plan.ClinicID, PatientID: plan.PatientID, PlanIDs: []string{plan.ID}, Lines: LinesOf(plan.Recommendations)}
	} else {
		patient := w.Patients.Rows[w.dice.IntN(len(w.Patients.Rows))]
		v := w.Variants.Rows[w.dice.IntN(len(w.Variants.Rows))]
		o = &model.Order{ClinicID: patient.ClinicID, PatientID: patient.ID, Lines: []model.Line{{VariantID: v.ID, Quantity: 1 + w.dice.IntN(3)}}}
	}
	patient, _ := table.Get(w.Patients, o.PatientID)
	if err := w.Price(o, w.TotalDiscount(patient)); err != nil {
		panic(err) // all rows exist
	}
	w.PutOrder(o, at)
}
