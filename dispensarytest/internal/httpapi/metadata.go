package httpapi

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// metadataEntry is an object with the integrator's identifier. API section: "Metadata entry".
type metadataEntry struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data any    `json:"data"`
}

// metadataTypes are the kinds of objects, each with the scope for reading it. The scopes are
// an assumption, and so is staff as a kind.
var metadataTypes = []struct{ name, scope string }{
	{"patient", operations.ScopePatientsRead},
	{"practitioner", operations.ScopeClinicRead},
	{"staff", operations.ScopeClinicRead},
	{"treatment_plan", operations.ScopePatientsRead},
}

// listMetadata requires an id. If there is no type, it searches all types that the token may
// read. Both are assumptions.
func listMetadata(c *call, w *store.World) (reply, error) {
	id := c.params.get("id")
	if id == "" {
		return reply{}, invalid("id can't be blank")
	}
	kind, err := c.params.oneOf("type", "patient", "practitioner", "staff", "treatment_plan")
	if err != nil {
		return reply{}, err
	}
	if kind == "" && c.behaviors.TypeNeeded {
		return reply{}, invalid("type can't be blank")
	}
	var found []*metadataEntry
	for _, t := range metadataTypes {
		switch {
		case kind == t.name:
			if err := c.require(t.scope); err != nil {
				return reply{}, err
			}
		case kind != "" || !c.token.Has(t.scope):
			continue
		}
		found = append(found, c.withMetadata(w, t.name, id)...)
	}
	return listOf(c, found, func(e *metadataEntry) metadataEntry { return *e }), nil
}

func (c *call) withMetadata(w *store.World, kind, id string) (found []*metadataEntry) {
	add := func(data any, createdAt time.Time) {
		if c.now.Sub(createdAt) < c.behaviors.MetadataLag {
			return
		}
		found = append(found, &metadataEntry{ID: id, Type: kind, Data: data})
	}
	clinic := c.clinicID()
	switch kind {
	case "patient":
		for _, p := range table.Where(w.Patients, func(p *model.Patient) bool { return p.ClinicID == clinic && p.MetadataID == id }) {
			add(view.Patient(w, p), p.CreatedAt)
		}
	case "practitioner":
		for _, p := range table.Where(w.Practitioners, func(p *model.Practitioner) bool { return p.ClinicID == clinic && p.MetadataID == id }) {
			add(viewPractitioner(p), p.CreatedAt)
		}
	case "staff":
		for _, m := range table.Where(w.Staff, func(m *store.StaffMember) bool { return m.ClinicID == clinic && m.MetadataID == id }) {
			add(viewStaff(m), m.CreatedAt)
		}
	case "treatment_plan":
		outside := c.token.Has(operations.ScopePlanHistory)
		for _, p := range table.Where(w.Plans, func(p *model.Plan) bool { return p.ClinicID == clinic && p.MetadataID == id && (outside || !p.Outside) }) {
			add(c.viewPlan(p), p.CreatedAt)
		}
	}
	return found
}
