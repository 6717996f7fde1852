package store

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// How rows can be listed, by table; see [table.Table.Span].
const (
	AddressesByPatient      = 0
	EventsByGroup           = 0 // clinic and group, by time
	EventsByType            = 1 // clinic and type, by time
	EventsByObject          = 2 // by time
	IntegrationsByClinic    = 0
	integrationsByKey       = 1
	ordersByClinic          = 0
	OrdersByPatient         = 1 // clinic and patient
	ordersByPlan            = 2 // clinic and first plan
	OrdersByNumber          = 3 // clinic and number
	ordersByTime            = 4 // clinic, by time
	PatientsByMetadata      = 0 // clinic and identifier
	PatientsByClinic        = 1
	PlansByPatient          = 0
	PlansByMetadata         = 1 // clinic and identifier
	PractitionersByMetadata = 0 // clinic and identifier
	PractitionersByClinic   = 1
	productsByBrand         = 0
	StaffByMetadata         = 0 // clinic and identifier
	StaffByClinic           = 1
)

// The kinds of facets that rows are found by; see [table.Search].
const (
	FacetAllergen      = "allergen"
	FacetBrand         = "brand"
	facetCategory      = "category"
	FacetCertification = "certification"
	FacetClinic        = "clinic"
	facetComposition   = "composition" // supplement type and ingredients
	FacetIngredient    = "ingredient"
	facetOpen          = "open" // its brand is not restricted
	FacetType          = "supplement type"
	facetListed        = "listed" // it is not removed
)

// sortTables sets up how rows are listed, so that a large world answers as fast as a
// small one.
func (w *World) sortTables() {
	w.Addresses.IndexBy(table.By(func(a *model.Address) string { return a.PatientID }))
	w.Integrations.IndexBy(
		table.By(func(i *model.Integration) string { return i.ClinicID }),
		table.By(func(i *model.Integration) string { return i.Key }),
	)
	w.Patients.IndexBy(
		table.By(func(p *model.Patient) string { return p.ClinicID }, func(p *model.Patient) string { return p.MetadataID }),
		table.By(func(p *model.Patient) string { return p.ClinicID }),
	)
	w.Plans.IndexBy(
		table.By(func(p *model.Plan) string { return p.PatientID }),
		table.By(func(p *model.Plan) string { return p.ClinicID }, func(p *model.Plan) string { return p.MetadataID }),
	)
	w.Practitioners.IndexBy(
		table.By(func(p *model.Practitioner) string { return p.ClinicID }, func(p *model.Practitioner) string { return p.MetadataID }),
		table.By(func(p *model.Practitioner) string { return p.ClinicID }),
	)
	w.Products.IndexBy(table.By(func(p *model.Product) string { return p.BrandID }))
	w.Staff.IndexBy(
		table.By(func(m *model.StaffMember) string { return m.ClinicID }, func(m *model.StaffMember) string { return m.MetadataID }),
		table.By(func(m *model.StaffMember) string { return m.ClinicID }),
	)
	w.sortEventsAndOrders()
}

func (w *World) sortEventsAndOrders() {
	clinic := func(o *model.Order) string { return o.ClinicID }
	w.Orders.IndexBy(
		table.By(clinic),
		table.By(clinic, func(o *model.Order) string { return o.PatientID }),
		table.By(clinic, OrderPlan),
		table.By(clinic, func(o *model.Order) string { return o.Number }),
		table.ByTime(func(o *model.Order) time.Time { return o.CompletedAt }, clinic),
	)
	created := func(e *model.Event) time.Time { return e.CreatedAt }
	w.Events.IndexBy(
		table.ByTime(created, func(e *model.Event) string { return e.ClinicID }, func(e *model.Event) string { return model.EventGroup(e.Type) }),
		table.ByTime(created, func(e *model.Event) string { return e.ClinicID }, func(e *model.Event) string { return e.Type }),
		table.ByTime(created, func(e *model.Event) string { return e.ObjectID }),
	)
}

// OrderPlan is the plan that an order is sorted by: the first of those it is for.
// Orders that are for none come last.
func OrderPlan(o *model.Order) string {
	if len(o.PlanIDs) == 0 {
		return "~"
	}
	return o.PlanIDs[0]
}
