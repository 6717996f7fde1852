package dispensarytest

import (
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
)

func readMoves() []move {
	return []move{
		{"get a patient", 4, func(m *walkModel, s step) prediction {
			at := choose(len(m.patients), s.a)
			p, done := m.callAbout(s, at, "GET", "patients:read", "/clinic/patients/", ref{"patient", at})
			if done {
				return p
			}
			return p.answer(200, m.patientFields(at))
		}},
		{"list patients", 2, func(m *walkModel, s step) prediction {
			p, _ := m.call(s, "GET", "patients:read", "/clinic/patients")
			return p.answer(200, map[string]any{"meta.total_count": len(m.patients), "patients.#": min(len(m.patients), 25)})
		}},
		{"search patients", 2, func(m *walkModel, s step) prediction {
			email, found := address("p", s.a), 0
			for _, patient := range m.patients {
				if strings.Contains(strings.ToLower(patient.email), strings.ToLower(email)) {
					found++
				}
			}
			p, _ := m.call(s, "GET", "patients:read", "/clinic/search/patients")
			p.request.query = "?query=" + email
			return p.answer(200, map[string]any{"meta.total_count": found})
		}},
		{"get the clinic", 3, func(m *walkModel, s step) prediction {
			p, refused := m.call(s, "GET", "clinic:read", "/clinic")
			if refused {
				return p
			}
			fields := map[string]any{"clinic.patient_count": len(m.patients), "clinic.practitioner_count": m.practitioners()}
			if !m.activated {
				fields["clinic.integration_activated_at"] = nil
			}
			return p.answer(200, fields)
		}},
		{"get a product", 1, func(m *walkModel, s step) prediction {
			p, _ := m.call(s, "GET", "catalog:read", "/catalog/products/", ref{"product", s.a % 44})
			return p.answer(200, map[string]any{"product.id": ref{"product", s.a % 44}})
		}},
		{"find metadata", 3, findMetadata},
		{"list events", 4, listEventGroup},
		{"get an event", 4, getOneEvent},
		{"list orders", 2, func(m *walkModel, s step) prediction {
			at, found := choose(len(m.patients), s.a), 0
			for _, o := range m.orders {
				if o.patient == at {
					found++
				}
			}
			p, _ := m.call(s, "GET", "patients:order_history", "/clinic/orders?patient_id=", ref{"patient", at})
			return p.answer(200, map[string]any{"orders.#": found})
		}},
		{"get an order", 2, func(m *walkModel, s step) prediction {
			at := choose(len(m.orders), s.a)
			p, done := m.callAbout(s, at, "GET", "patients:order_history", "/clinic/orders/", ref{"order", at})
			if done {
				return p
			}
			fields := map[string]any{"order.patient_id": ref{"patient", m.orders[at].patient}}
			if m.orders[at].plan >= 0 {
				fields["order.treatment_plan_ids.0"] = ref{"plan", m.orders[at].plan}
			}
			if m.orders[at].refunded {
				fields["order.payment_total"] = "0.00"
			}
			return p.answer(200, fields)
		}},
		{"use a wrong verb", 1, func(m *walkModel, s step) prediction {
			p := prediction{request: request{method: "PUT", path: []any{"/clinic/patients/", ref{"patient", 0}}, token: m.caller(s)}}
			return p.answer(404, nil)
		}},
	}
}

func (m *walkModel) patientFields(at int) map[string]any {
	patient := m.patients[at]
	fields := map[string]any{
		"patient.id": ref{"patient", at}, "patient.email": patient.email, "patient.metadata.id": nil,
		"patient.discount": patient.discount, "patient.total_discount": min(patient.discount+10, 100),
	}
	if patient.metadata != "" {
		fields["patient.metadata.id"] = patient.metadata
	}
	return fields
}

// readable reports whether a token with these scopes sees a plan.
func (m *walkModel) readable(p *modelPlan, g *modelGrant) bool {
	return !m.outsideNeedsHistory || !p.outside || g.has("patients:treatment_plan_history")
}

func findMetadata(m *walkModel, s step) prediction {
	id, kind := metadataID(s.a), [...]string{"", "patient", "practitioner", "staff", "treatment_plan"}[s.b%5]
	p, refused := m.call(s, "GET", "", "/clinic/metadata")
	p.request.query = "?id=" + id + "&type=" + kind
	if refused {
		return p
	}
	scope := map[string]string{"patient": "patients:read", "treatment_plan": "patients:read", "practitioner": "clinic:read", "staff": "clinic:read"}
	if kind != "" && !m.also(&p, scope[kind]) {
		return p
	}
	g, found := m.tokens[p.request.token].grant, 0
	count := func(of string, metadata string, visible bool) {
		if metadata == id && visible && (kind == "" || kind == of) && g.has(scope[of]) {
			found++
		}
	}
	for _, patient := range m.patients {
		count("patient", patient.metadata, true)
	}
	for _, u := range m.users {
		count(map[bool]string{false: "practitioner", true: "staff"}[u.staff], u.metadata, true)
	}
	for _, plan := range m.plans {
		count("treatment_plan", plan.metadata, m.readable(plan, g))
	}
	return p.answer(200, map[string]any{"meta.total_count": found})
}

var eventGroups = []struct{ path, prefix, scope string }{
	{"clinic_keys", "clinic_key.", "clinic:read"},
	{"orders", "order.", "patients:order_history"},
	{"patients", "patient.", "patients:read"},
	{"products", "product.", "catalog:read"},
	{"treatment_plans", "treatment_plan.", "patients:treatment_plan_history"},
}

func listEventGroup(m *walkModel, s step) prediction {
	group := eventGroups[s.a%len(eventGroups)]
	p, refused := m.call(s, "GET", group.scope, "/events/"+group.path)
	day := m.now.AddDate(0, 0, -(s.b % 3)).Format(time.DateOnly)
	filtered := s.b%2 == 0
	if filtered {
		p.request.query = "?created_at=" + day
	}
	if refused {
		return p
	}
	found := 0
	for _, e := range m.events {
		if strings.HasPrefix(e.kind, group.prefix) && m.kept(e) && (!filtered || e.at.Format(time.DateOnly) == day) {
			found++
		}
	}
	return p.answer(200, map[string]any{"meta.total_count": found})
}

func getOneEvent(m *walkModel, s step) prediction {
	at := choose(len(m.events), s.a)
	p, refused := m.call(s, "GET", "", "/events/", ref{"event", at})
	if refused {
		return p
	}
	if at < 0 || !m.kept(m.events[at]) {
		return p.answer(404, nil)
	}
	e := m.events[at]
	group := slices.IndexFunc(eventGroups, func(g struct{ path, prefix, scope string }) bool { return strings.HasPrefix(e.kind, g.prefix) })
	if !m.also(&p, eventGroups[group].scope) {
		return p
	}
	return p.answer(200, map[string]any{"event.type": e.kind, "event.created_at": view.Time(e.at)})
}

func writeMoves() []move {
	return []move{
		{"create a patient", 5, createPatientMove},
		{"update a patient", 4, updatePatientMove},
		{"create a practitioner", 2, func(m *walkModel, s step) prediction { return createUserMove(m, s, false) }},
		{"create staff", 2, func(m *walkModel, s step) prediction { return createUserMove(m, s, true) }},
		{"update a user", 3, updateUserMove},
		{"get a user", 2, func(m *walkModel, s step) prediction {
			at := choose(len(m.users), s.a)
			staff := at >= 0 && m.users[at].staff
			p, done := m.callAbout(s, at, "GET", "clinic:read", userPath[staff], "/", ref{"user", at})
			if done {
				return p
			}
			return p.answer(200, map[string]any{userKey[staff] + ".email": m.users[at].email})
		}},
	}
}

var (
	userPath = map[bool]string{false: "/clinic/practitioners", true: "/clinic/staff"}
	userKey  = map[bool]string{false: "practitioner", true: "staff"}
)

func createPatientMove(m *walkModel, s step) prediction {
	patient := modelPatient{email: address("p", s.a)}
	p, refused := m.call(s, "POST", "patients:write", "/clinic/patients")
	p.request.body = map[string]any{"email": patient.email, "first_name": "Walk", "last_name": "In"}
	if s.b%2 == 0 {
		patient.metadata = metadataID(s.b / 2)
		p.request.body["metadata"] = map[string]any{"id": patient.metadata}
	}
	bad := false
	switch s.c % 8 {
	case 0:
		delete(p.request.body, "last_name")
		bad = true
	case 1:
		p.request.body["discount"] = 101
		bad = true
	case 2:
		patient.discount = float64(s.c / 8 % 101)
		p.request.body["discount"] = patient.discount
	}
	switch {
	case refused:
		return p
	case bad || m.taken(patient.email, -1):
		return p.answer(422, nil)
	}
	m.patients = append(m.patients, &patient)
	m.called("patient.created")
	made := ref{"patient", len(m.patients) - 1}
	fields := m.patientFields(made.n)
	delete(fields, "patient.id") // not known yet
	return p.answer(201, fields).bind("patient.id", made)
}

func updatePatientMove(m *walkModel, s step) prediction {
	at := choose(len(m.patients), s.a)
	p, done := m.callAbout(s, at, "PATCH", "patients:write", "/clinic/patients/", ref{"patient", at})
	p.request.body = map[string]any{}
	email, discount, metadata := s.b%3 != 0, s.c%3 == 0, s.c%5 == 0
	if email {
		p.request.body["email"] = address("p", s.b/3)
	}
	if discount {
		p.request.body["discount"] = s.c / 3 % 120
	}
	if metadata {
		p.request.body["metadata"] = map[string]any{"id": metadataID(s.c / 5)}
	}
	switch {
	case done:
		return p
	case email && m.taken(address("p", s.b/3), at), discount && s.c/3%120 > 100:
		return p.answer(422, nil)
	}
	patient := m.patients[at]
	if email {
		patient.email = address("p", s.b/3)
	}
	if discount {
		patient.discount = float64(s.c / 3 % 120)
	}
	if metadata {
		patient.metadata = metadataID(s.c / 5)
	}
	m.called("patient.updated")
	return p.answer(200, m.patientFields(at))
}

func createUserMove(m *walkModel, s step, staff bool) prediction {
	u := modelUser{staff: staff, email: address("u", s.a), metadata: metadataID(s.b)}
	p, refused := m.call(s, "POST", "clinic:write", userPath[staff])
	p.request.body = map[string]any{"email": u.email, "first_name": "Ada", "last_name": "Walker", "metadata": map[string]any{"id": u.metadata}}
	bad := s.c%8 == 0
	if !staff {
		p.request.body["practitioner_type_id"] = ref{"type", 0}
		if bad {
			p.request.body["practitioner_type_id"] = "no-such-type"
		}
	} else if bad {
		p.request.body["first_name"] = "  "
	}
	switch {
	case refused:
		return p
	case bad || m.userTaken(u.email, staff, -1):
		return p.answer(422, nil)
	}
	m.users = append(m.users, &u)
	return p.answer(201, map[string]any{userKey[staff] + ".email": u.email, userKey[staff] + ".metadata.id": u.metadata}).
		bind(userKey[staff]+".id", ref{"user", len(m.users) - 1})
}

func updateUserMove(m *walkModel, s step) prediction {
	at, email := choose(len(m.users), s.a), address("u", s.b)
	staff := at >= 0 && m.users[at].staff
	p, done := m.callAbout(s, at, "PATCH", "clinic:write", userPath[staff], "/", ref{"user", at})
	p.request.body = map[string]any{"email": email, "last_name": strings.Repeat(" ", s.c%6/5) + "Renamed"}
	switch {
	case done:
		return p
	case m.userTaken(email, staff, at):
		return p.answer(422, nil)
	}
	m.users[at].email = email
	return p.answer(200, map[string]any{userKey[staff] + ".email": email})
}
