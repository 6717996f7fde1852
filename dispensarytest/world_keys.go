package dispensarytest

import "slices"

// Second ways to find rows, by table; see table.with.
const (
	addressesByPatient      = 0
	ordersByPatient         = 0
	ordersByNumber          = 1
	ordersByPlan            = 2
	patientsByMetadata      = 0
	patientsByClinic        = 1
	plansByPatient          = 0
	plansByMetadata         = 1
	practitionersByMetadata = 0
	practitionersByClinic   = 1
	productsByBrand         = 0
	staffByMetadata         = 0
)

// findByKeys sets up how rows are found, so that a large world answers as fast as
// a small one.
func (w *world) findByKeys() {
	w.addresses.findBy(func(a *Address) string { return a.PatientID })
	w.orders.findBy(
		func(o *Order) string { return o.PatientID },
		func(o *Order) string { return o.Number },
		func(o *Order) string {
			if len(o.PlanIDs) == 0 {
				return ""
			}
			return o.PlanIDs[0] // no order is for more than one
		},
	)
	w.patients.findBy(func(p *Patient) string { return p.MetadataID }, func(p *Patient) string { return p.ClinicID })
	w.plans.findBy(func(p *Plan) string { return p.PatientID }, func(p *Plan) string { return p.MetadataID })
	w.practitioners.findBy(func(p *Practitioner) string { return p.MetadataID }, func(p *Practitioner) string { return p.ClinicID })
	w.products.findBy(func(p *Product) string { return p.BrandID })
	w.staff.findBy(func(m *StaffMember) string { return m.MetadataID })
}

// keepRows keeps the rows that a condition holds for.
func keepRows[T any](rows []*T, keep func(*T) bool) []*T {
	return slices.DeleteFunc(rows, func(row *T) bool { return !keep(row) })
}
