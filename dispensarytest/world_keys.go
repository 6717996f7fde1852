package dispensarytest

import (
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// How rows can be listed, by table; see [table.Table.Span].
const (
	addressesByPatient      = 0
	eventsByGroup           = 0 // clinic and group, by time
	eventsByType            = 1 // clinic and type, by time
	eventsByObject          = 2 // by time
	integrationsByClinic    = 0
	integrationsByKey       = 1
	ordersByClinic          = 0
	ordersByPatient         = 1 // clinic and patient
	ordersByPlan            = 2 // clinic and first plan
	ordersByNumber          = 3 // clinic and number
	ordersByTime            = 4 // clinic, by time
	patientsByMetadata      = 0 // clinic and identifier
	patientsByClinic        = 1
	plansByPatient          = 0
	plansByMetadata         = 1 // clinic and identifier
	practitionersByMetadata = 0 // clinic and identifier
	practitionersByClinic   = 1
	productsByBrand         = 0
	staffByMetadata         = 0 // clinic and identifier
	staffByClinic           = 1
)

// The kinds of facets that rows are found by; see [table.Search].
const (
	facetAllergen      = "allergen"
	facetBrand         = "brand"
	facetCategory      = "category"
	facetCertification = "certification"
	facetClinic        = "clinic"
	facetComposition   = "composition" // supplement type and ingredients
	facetIngredient    = "ingredient"
	facetOpen          = "open" // its brand is not restricted
	facetType          = "supplement type"
)

// sortTables sets up how rows are listed, so that a large world answers as fast as a
// small one.
func (w *world) sortTables() {
	w.addresses.IndexBy(table.By(func(a *Address) string { return a.PatientID }))
	w.integrations.IndexBy(
		table.By(func(i *integration) string { return i.clinicID }),
		table.By(func(i *integration) string { return i.key }),
	)
	w.patients.IndexBy(
		table.By(func(p *Patient) string { return p.ClinicID }, func(p *Patient) string { return p.MetadataID }),
		table.By(func(p *Patient) string { return p.ClinicID }),
	)
	w.plans.IndexBy(
		table.By(func(p *Plan) string { return p.PatientID }),
		table.By(func(p *Plan) string { return p.ClinicID }, func(p *Plan) string { return p.MetadataID }),
	)
	w.practitioners.IndexBy(
		table.By(func(p *Practitioner) string { return p.ClinicID }, func(p *Practitioner) string { return p.MetadataID }),
		table.By(func(p *Practitioner) string { return p.ClinicID }),
	)
	w.products.IndexBy(table.By(func(p *Product) string { return p.BrandID }))
	w.staff.IndexBy(
		table.By(func(m *StaffMember) string { return m.ClinicID }, func(m *StaffMember) string { return m.MetadataID }),
		table.By(func(m *StaffMember) string { return m.ClinicID }),
	)
	w.sortEventsAndOrders()
}

func (w *world) sortEventsAndOrders() {
	clinic := func(o *Order) string { return o.ClinicID }
	w.orders.IndexBy(
		table.By(clinic),
		table.By(clinic, func(o *Order) string { return o.PatientID }),
		table.By(clinic, orderPlan),
		table.By(clinic, func(o *Order) string { return o.Number }),
		table.ByTime(func(o *Order) time.Time { return o.CompletedAt }, clinic),
	)
	created := func(e *Event) time.Time { return e.CreatedAt }
	w.events.IndexBy(
		table.ByTime(created, func(e *Event) string { return e.ClinicID }, func(e *Event) string { return eventGroup(e.Type) }),
		table.ByTime(created, func(e *Event) string { return e.ClinicID }, func(e *Event) string { return e.Type }),
		table.ByTime(created, func(e *Event) string { return e.ObjectID }),
	)
}

// orderPlan is the plan that an order is sorted by: the first of those it is for.
// Orders that are for none come last.
func orderPlan(o *Order) string {
	if len(o.PlanIDs) == 0 {
		return "~"
	}
	return o.PlanIDs[0]
}

// eventGroup is what an event's type is about: "patient", "treatment_plan".
func eventGroup(kind string) string {
	group, _, _ := strings.Cut(kind, ".")
	return group
}
