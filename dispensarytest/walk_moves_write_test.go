package dispensarytest

import "strings"

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
			p, refused := m.call(s, "GET", "clinic:read", userPath[staff], "/", ref{"user", at})
			switch {
			case refused:
				return p
			case at < 0:
				return p.answer(404, nil)
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
	p, refused := m.call(s, "PATCH", "patients:write", "/clinic/patients/", ref{"patient", at})
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
	case refused:
		return p
	case at < 0:
		return p.answer(404, nil)
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
	p, refused := m.call(s, "PATCH", "clinic:write", userPath[staff], "/", ref{"user", at})
	p.request.body = map[string]any{"email": email, "last_name": strings.Repeat(" ", s.c%6/5) + "Renamed"}
	switch {
	case refused:
		return p
	case at < 0:
		return p.answer(404, nil)
	case m.userTaken(email, staff, at):
		return p.answer(422, nil)
	}
	m.users[at].email = email
	return p.answer(200, map[string]any{userKey[staff] + ".email": email})
}
