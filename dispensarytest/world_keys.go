package dispensarytest

import (
	"slices"
	"strings"
	"time"
)

// How rows can be listed, by table; see [table.span].
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

// The kinds of facets that rows are found by; see [searchIndex].
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
	w.addresses.sortedBy(by(func(a *Address) string { return a.PatientID }))
	w.integrations.sortedBy(
		by(func(i *integration) string { return i.clinicID }),
		by(func(i *integration) string { return i.key }),
	)
	w.patients.sortedBy(
		by(func(p *Patient) string { return p.ClinicID }, func(p *Patient) string { return p.MetadataID }),
		by(func(p *Patient) string { return p.ClinicID }),
	)
	w.plans.sortedBy(
		by(func(p *Plan) string { return p.PatientID }),
		by(func(p *Plan) string { return p.ClinicID }, func(p *Plan) string { return p.MetadataID }),
	)
	w.practitioners.sortedBy(
		by(func(p *Practitioner) string { return p.ClinicID }, func(p *Practitioner) string { return p.MetadataID }),
		by(func(p *Practitioner) string { return p.ClinicID }),
	)
	w.products.sortedBy(by(func(p *Product) string { return p.BrandID }))
	w.staff.sortedBy(
		by(func(m *StaffMember) string { return m.ClinicID }, func(m *StaffMember) string { return m.MetadataID }),
		by(func(m *StaffMember) string { return m.ClinicID }),
	)
	w.sortEventsAndOrders()
}

func (w *world) sortEventsAndOrders() {
	clinic := func(o *Order) string { return o.ClinicID }
	w.orders.sortedBy(
		by(clinic),
		by(clinic, func(o *Order) string { return o.PatientID }),
		by(clinic, orderPlan),
		by(clinic, func(o *Order) string { return o.Number }),
		timed(func(o *Order) time.Time { return o.CompletedAt }, clinic),
	)
	created := func(e *Event) time.Time { return e.CreatedAt }
	w.events.sortedBy(
		timed(created, func(e *Event) string { return e.ClinicID }, func(e *Event) string { return eventGroup(e.Type) }),
		timed(created, func(e *Event) string { return e.ClinicID }, func(e *Event) string { return e.Type }),
		timed(created, func(e *Event) string { return e.ObjectID }),
	)
}

// by groups rows by keys.
func by[T any](keys ...func(*T) string) order[T] { return order[T]{by: keys} }

// timed is by, with the rows of a group sorted by a time.
func timed[T any](at func(*T) time.Time, keys ...func(*T) string) order[T] {
	return order[T]{by: keys, then: func(a, b *T) int { return at(a).Compare(at(b)) }}
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

// keepRows keeps the rows that a condition holds for.
func keepRows[T any](rows []*T, keep func(*T) bool) []*T {
	return slices.DeleteFunc(rows, func(row *T) bool { return !keep(row) })
}
