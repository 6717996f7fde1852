package dispensarytest

import (
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
)

func planMoves() []move {
	return []move{
		{"create a plan", 6, createPlanMove},
		{"get a plan", 4, func(m *walkModel, s step) prediction {
			p, plan, done := m.planCall(s, "GET", "patients:read", "")
			if done {
				return p
			}
			return p.answer(200, m.planFields(plan))
		}},
		{"list plans", 3, listPlansMove},
		{"update a plan", 4, updatePlanMove},
		{"activate a plan", 5, func(m *walkModel, s step) prediction {
			p, plan, done := m.planCall(s, "PATCH", "clinic:write", "/activate")
			switch {
			case done:
				return p
			case !m.activatePlan(m.plans[plan]):
				return p.answer(422, nil)
			}
			m.called("treatment_plan.created")
			return p.answer(200, m.planFields(plan))
		}},
		{"cancel a plan", 3, func(m *walkModel, s step) prediction {
			p, plan, done := m.planCall(s, "PATCH", "clinic:write", "/cancel")
			switch {
			case done:
				return p
			case !m.cancelPlan(m.plans[plan]):
				return p.answer(422, nil)
			}
			return p.answer(200, m.planFields(plan))
		}},
		{"check a plan out", 2, func(m *walkModel, s step) prediction {
			p, at, done := m.planCall(s, "POST", "clinic:write", "/in_office_checkout")
			switch {
			case done:
				return p
			case m.plans[at].state != "active":
				return p.answer(422, nil)
			}
			m.patients[m.plans[at].patient].cart = &modelCart{plan: at, units: slices.Clone(m.plans[at].units)}
			return p.answer(201, nil)
		}},
		{"make a link", 3, makeLinkMove},
		{"get a link", 2, func(m *walkModel, s step) prediction {
			at := choose(len(m.plans), s.a)
			p, refused := m.call(s, "GET", "clinic:read", "/clinic/dynamic_links/treatment_plans/", ref{"plan", at})
			switch {
			case refused:
				return p
			case at < 0:
				return p.answer(404, nil)
			case !m.readable(m.plans[at], m.tokens[p.request.token].grant):
				return p.answer(http.StatusForbidden, nil)
			case m.plans[at].state == "cancelled":
				return p.answer(422, nil)
			}
			return p.answer(200, map[string]any{"dynamic_links.treatment_plan.id": ref{"plan", at}, "dynamic_links.treatment_plan.state": m.plans[at].state})
		}},
	}
}

// planCall starts the prediction of a call that is about one plan.
func (m *walkModel) planCall(s step, method, scope, suffix string) (p prediction, plan int, done bool) {
	plan = choose(len(m.plans), s.a)
	p, refused := m.call(s, method, scope, "/clinic/treatment_plans/", ref{"plan", plan}, suffix)
	switch {
	case refused:
		return p, plan, true
	case plan < 0:
		return p.answer(404, nil), plan, true
	case !m.readable(m.plans[plan], m.tokens[p.request.token].grant):
		return p.answer(http.StatusForbidden, nil), plan, true
	}
	return p, plan, false
}

func (m *walkModel) planFields(at int) map[string]any {
	plan := m.plans[at]
	fields := map[string]any{
		"treatment_plan.id": ref{"plan", at}, "treatment_plan.state": plan.state, "treatment_plan.recommendations.#": len(plan.units),
		"treatment_plan.created_at": view.Time(plan.created), "treatment_plan.updated_at": view.Time(plan.updated),
		"treatment_plan.metadata.id": nil, "treatment_plan.personal_message": nil, "treatment_plan.available_at": nil,
	}
	if plan.patient >= 0 {
		fields["treatment_plan.patient.id"] = ref{"patient", plan.patient}
	}
	if plan.metadata != "" {
		fields["treatment_plan.metadata.id"] = plan.metadata
	}
	if plan.message != "" {
		fields["treatment_plan.personal_message"] = plan.message
	}
	if !plan.told.IsZero() {
		fields["treatment_plan.available_at"] = plan.told.Format(time.DateOnly)
	}
	for i, units := range plan.units {
		fields["treatment_plan.recommendations."+string(rune('0'+i))+".units_to_purchase"] = units
	}
	return fields
}

// lines are recommendations for the first products of the catalog.
func lines(number int) (units []int, body []any) {
	for i := range 1 + number%3 {
		units = append(units, 1+(number/3+i)%4)
		body = append(body, map[string]any{"variant_id": ref{"variant", i}, "units_to_purchase": units[i]})
	}
	return units, body
}

func createPlanMove(m *walkModel, s step) prediction {
	patient := choose(len(m.patients), s.a)
	plan := modelPlan{patient: patient, state: "active", metadata: metadataID(s.b)}
	p, refused := m.call(s, "POST", "clinic:write", "/clinic/patients/", ref{"patient", patient}, "/treatment_plans")
	var recommendations []any
	plan.units, recommendations = lines(s.c)
	p.request.body = map[string]any{"practitioner_id": ref{"user", 0}, "recommendations": recommendations, "metadata": map[string]any{"id": plan.metadata}}
	bad := false
	switch s.b / 6 % 10 {
	case 0, 1, 2, 3, 4:
		plan.state = "draft"
		p.request.body["state"] = "draft"
	case 5:
		p.request.body["state"] = nil
	case 6:
		p.request.body["state"], bad = "cancelled", true
	case 7:
		p.request.body["recommendations"], bad = []any{}, true
	}
	switch {
	case refused, !m.also(&p, "patients:read"):
		return p
	case patient < 0:
		return p.answer(404, nil)
	case bad:
		return p.answer(422, nil)
	}
	made := m.addPlan(plan)
	m.called("treatment_plan.created")
	fields := m.planFields(made.n)
	delete(fields, "treatment_plan.id")
	return p.answer(201, fields).bind("treatment_plan.id", made)
}

func listPlansMove(m *walkModel, s step) prediction {
	patient, found := choose(len(m.patients), s.a), 0
	p, refused := m.call(s, "GET", "patients:read", "/clinic/patients/", ref{"patient", patient}, "/treatment_plans")
	switch {
	case refused:
		return p
	case patient < 0:
		return p.answer(404, nil)
	}
	for _, plan := range m.plans {
		if plan.patient == patient && m.readable(plan, m.tokens[p.request.token].grant) {
			found++
		}
	}
	return p.answer(200, map[string]any{"meta.total_count": found})
}

func updatePlanMove(m *walkModel, s step) prediction {
	p, at, done := m.planCall(s, "PATCH", "clinic:write", "")
	units, recommendations := lines(s.b)
	p.request.body = map[string]any{"recommendations": recommendations, "personal_message": "Take care."}
	bad := s.c%8 == 0
	if bad {
		delete(p.request.body, "recommendations")
	}
	switch {
	case done:
		return p
	case bad || m.plans[at].state == "cancelled":
		return p.answer(422, nil)
	}
	m.plans[at].units, m.plans[at].message = units, "Take care."
	m.plans[at].update(m.now)
	return p.answer(200, m.planFields(at))
}

func makeLinkMove(m *walkModel, s step) prediction {
	p, refused := m.call(s, "POST", "clinic:write", "/clinic/dynamic_links/treatment_plans")
	plan := modelPlan{patient: -1, state: "draft"}
	p.request.body = map[string]any{"treatment_plan": map[string]any{"practitioner_id": ref{"user", 0}}}
	email := address("p", s.a)
	if s.b%4 != 0 {
		p.request.body["patient"] = map[string]any{"email": email}
		plan.patient = m.patientAt(email)
	}
	if s.b%8 == 7 {
		delete(p.request.body, "treatment_plan")
	}
	switch {
	case refused:
		return p
	case s.b%8 == 7:
		return p.answer(400, nil)
	}
	p.binds = make(map[string]ref)
	if s.b%4 != 0 && plan.patient < 0 {
		if !m.also(&p, "patients:write") {
			return p
		}
		m.patients = append(m.patients, &modelPatient{email: email})
		plan.patient = len(m.patients) - 1
		p.binds["dynamic_links.patient.id"] = ref{"patient", plan.patient}
	}
	p.binds["dynamic_links.treatment_plan.id"] = m.addPlan(plan)
	return p.answer(200, map[string]any{"dynamic_links.treatment_plan.state": "draft", "dynamic_links.treatment_plan.available_at": nil})
}
