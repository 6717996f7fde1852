package dispensarytest

import (
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// metadataEntry is an object found by the integrator's identifier. API section:
// "Metadata entry".
type metadataEntry struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data any    `json:"data"`
}

// metadataTypes are the kinds of objects, with the scope that reads them: an
// assumption, like staff being among them.
var metadataTypes = []struct{ name, scope string }{
	{"patient", scopePatientsRead},
	{"practitioner", scopeClinicRead},
	{"staff", scopeClinicRead},
	{"treatment_plan", scopePatientsRead},
}

// listMetadata needs an id, and looks through all that the token may read where no
// type is given: two assumptions.
func listMetadata(c *call, w *world) (reply, error) {
	id := c.params.get("id")
	if id == "" {
		return reply{}, invalid("id can't be blank")
	}
	kind, err := c.params.oneOf("type", "patient", "practitioner", "staff", "treatment_plan")
	if err != nil {
		return reply{}, err
	}
	if kind == "" && c.reads.typeNeeded {
		return reply{}, invalid("type can't be blank")
	}
	var found []*metadataEntry
	for _, t := range metadataTypes {
		switch {
		case kind == t.name:
			if err := c.require(t.scope); err != nil {
				return reply{}, err
			}
		case kind != "" || !c.token.has(t.scope):
			continue
		}
		found = append(found, c.withMetadata(w, t.name, id)...)
	}
	return listOf(c, table.Rows(found), func(e *metadataEntry) metadataEntry { return *e }), nil
}

func (c *call) withMetadata(w *world, kind, id string) (found []*metadataEntry) {
	add := func(data any) { found = append(found, &metadataEntry{ID: id, Type: kind, Data: data}) }
	clinic := c.clinicID()
	switch kind {
	case "patient":
		for _, p := range w.patients.Span(patientsByMetadata, clinic, id).Created().All() {
			add(w.viewPatient(p))
		}
	case "practitioner":
		for _, p := range w.practitioners.Span(practitionersByMetadata, clinic, id).Created().All() {
			add(viewPractitioner(p))
		}
	case "staff":
		for _, m := range w.staff.Span(staffByMetadata, clinic, id).Created().All() {
			add(viewStaff(m))
		}
	case "treatment_plan":
		outside := c.token.has(scopePlanHistory)
		for _, p := range table.Keep(w.plans.Span(plansByMetadata, clinic, id).Created().All(), func(p *Plan) bool { return outside || !p.Outside }) {
			add(c.viewPlan(p))
		}
	}
	return found
}
