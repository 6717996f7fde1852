package dispensarytest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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
			p, done := m.callAbout(s, at, "GET", "clinic:read", "/clinic/dynamic_links/treatment_plans/", ref{"plan", at})
			switch {
			case done:
				return p
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
	p, done = m.callAbout(s, plan, method, scope, "/clinic/treatment_plans/", ref{"plan", plan}, suffix)
	if !done && !m.readable(m.plans[plan], m.tokens[p.request.token].grant) {
		p.status, done = http.StatusForbidden, true
	}
	return p, plan, done
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
	p, done := m.callAbout(s, patient, "GET", "patients:read", "/clinic/patients/", ref{"patient", patient}, "/treatment_plans")
	if done {
		return p
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

func oauthMoves() []move {
	return []move{
		{"issue a token", 6, issueTokenMove},
		{"authorize", 2, func(m *walkModel, _ step) prediction {
			m.codes = append(m.codes, &modelCode{scopes: slices.Clone(m.appScopes), expires: m.now.Add(m.codeLife)})
			return act("a user authorizes", 200, nil, func(d *driver) (any, error) {
				code := d.fake.tokens.NewCode(d.fake.Users()[0])
				return map[string]string{"code": code}, nil
			}).bind("code", ref{"code", len(m.codes) - 1})
		}},
		{"redeem a code", 3, func(m *walkModel, s step) prediction {
			at := choose(len(m.codes), s.a)
			p := prediction{request: tokenRequest(map[string]any{"grant_type": "authorization_code", "code": ref{"code", at}})}
			if at < 0 || m.codes[at].gone || !m.now.Before(m.codes[at].expires) {
				return p.answer(400, nil)
			}
			m.codes[at].gone = m.codesWorkOnce
			g := &modelGrant{scopes: m.codes[at].scopes}
			return p.answer(200, map[string]any{"oauth.expires_in": 7200}).bindPair(m.issue(g, -1), m.issueRefresh(g))
		}},
		{"refresh", 4, refreshMove},
		{"revoke", 1, func(m *walkModel, s step) prediction {
			token, refresh := choose(len(m.tokens), s.a), choose(len(m.refreshes), s.a)
			p := prediction{request: tokenRequest(map[string]any{"token": ref{"token", token}})}
			if s.b%2 == 0 {
				p.request.body["token"] = ref{"refresh", refresh}
			}
			p.request.path[0] = "/oauth/revoke"
			switch {
			case s.b%2 == 0 && refresh >= 0 && !m.refreshes[refresh].ended:
				m.refreshes[refresh].grant.revoked = true
			case s.b%2 != 0 && token >= 0 && m.revokingEndsRefresh:
				m.tokens[token].grant.revoked = true
			case s.b%2 != 0 && token >= 0:
				m.tokens[token].expires = m.now
			}
			return p.answer(200, nil)
		}},
		{"extend the scopes", 1, func(m *walkModel, s step) prediction {
			const more = "patients:treatment_plan_history"
			if !slices.Contains(m.appScopes, more) && s.a%4 == 0 {
				m.appScopes = append(m.appScopes, more)
				if m.extendingEndsTokens {
					m.endConsents()
				}
				return act("the application asks for one more scope", 200, nil, func(d *driver) (any, error) { return nil, d.fake.Tokens.ExtendScopes(more) })
			}
			return act("the application asks for a scope it has", 200, nil, func(d *driver) (any, error) { return nil, d.fake.Tokens.ExtendScopes("clinic:read") })
		}},
		{"expire a token", 1, func(m *walkModel, s step) prediction {
			at := choose(len(m.tokens), s.a)
			status := 200
			if at < 0 {
				status = 422
			} else {
				m.tokens[at].expires = m.now
			}
			return act(fmt.Sprintf("%v expires early", ref{"token", at}), status, nil, func(d *driver) (any, error) {
				return nil, d.fake.Tokens.Expire(d.id(ref{"token", at}))
			})
		}},
		{"let time pass", 6, func(m *walkModel, s step) prediction {
			passes := []time.Duration{
				time.Second, time.Minute, 5 * time.Minute, 10*time.Minute - time.Second, 10 * time.Minute, 11 * time.Minute,
				time.Hour, 2*time.Hour - time.Second, 2 * time.Hour, 3 * time.Hour, 24 * time.Hour, 24 * time.Hour, 10 * 24 * time.Hour, 30 * 24 * time.Hour,
			}
			by := passes[s.a%len(passes)]
			if s.b%3 != 0 {
				by = passes[s.a%4]
			}
			m.now = m.now.Add(by)
			return act(fmt.Sprintf("%s pass", by), 200, nil, func(d *driver) (any, error) {
				d.fake.Clock().Advance(by)
				return nil, nil
			})
		}},
	}
}

var credentials = []string{"client_id", "client_secret", "redirect_uri"}

// tokenRequest is a call to the token endpoint, with the application's
// credentials.
func tokenRequest(body map[string]any) request {
	for _, name := range credentials {
		body[name] = ref{name, 0}
	}
	return request{method: "POST", path: []any{"/oauth/token"}, body: body, open: true}
}

func (p prediction) bindPair(access, refresh ref) prediction {
	p.binds = map[string]ref{"oauth.access_token": access, "oauth.refresh_token": refresh}
	return p
}

func issueTokenMove(m *walkModel, s step) prediction {
	var scopes []string
	switch s.a % 16 {
	case 0:
		scopes = []string{"catalog:read"}
	case 1:
		scopes = []string{"clinic:write", "patients:read"}
	case 2:
		scopes = []string{"patients"}
	case 3:
		scopes = []string{"clinic"}
	case 4, 5:
	default:
		scopes = []string{"catalog:read", "clinic", "patients"}
	}
	g := &modelGrant{scopes: scopes}
	text := fmt.Sprintf("a token is issued with the scopes %q", scopes)
	if scopes == nil {
		g.scopes, text = slices.Clone(m.appScopes), "a token is issued with the application's scopes"
	}
	p := act(text, 200, nil, func(d *driver) (any, error) {
		return d.fake.Tokens.Issue(model.User{}, scopes...), nil
	})
	p.binds = map[string]ref{"AccessToken": m.issue(g, -1), "RefreshToken": m.issueRefresh(g)}
	return p
}

func refreshMove(m *walkModel, s step) prediction {
	at := choose(len(m.refreshes), s.a)
	p := prediction{request: tokenRequest(map[string]any{"grant_type": "refresh_token", "refresh_token": ref{"refresh", at}})}
	if at < 0 || m.refreshes[at].ended || !m.refreshes[at].grant.live() {
		return p.answer(400, nil)
	}
	g := m.refreshes[at].grant
	switch m.rotation {
	case RefreshRotationGrace:
		return p.answer(200, nil).bindPair(m.issue(g, at), m.issueRefresh(g))
	case RefreshRotationImmediate:
		m.refreshes[at].ended = true
		return p.answer(200, nil).bindPair(m.issue(g, -1), m.issueRefresh(g))
	}
	return p.answer(200, map[string]any{"oauth.refresh_token": ref{"refresh", at}}).bind("oauth.access_token", m.issue(g, -1))
}
