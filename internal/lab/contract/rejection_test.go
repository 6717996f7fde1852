package contract_test

import (
	"maps"
	"net/url"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// neededScopes replaces the scopes of the document for calls whose scopes depend on their content.
var neededScopes = map[string][]string{
	"dynamic_links.create": {"clinic:write", "patients:write"}, // for a new patient
	"events.get":           {"patients:order_history"},         // for the event of an order
	"metadata.list":        {"patients:read"},                  // for the type patient
}

// rejection is a wrong call.
type rejection struct {
	name   string
	status int
	change func(s *fixture, r *request) // changes the successful request
}

// at returns a request with a path value.
func at(value func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request { return request{path: []string{value(s)}} }
}

// having returns a request with a body and path values.
func having(body func(*fixture) map[string]any, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		r := request{body: body(s)}
		for _, value := range path {
			r.path = append(r.path, value(s))
		}
		return r
	}
}

// field returns a change of one field of the body.
func field(name string, value any) func(*fixture, *request) {
	return func(_ *fixture, r *request) {
		body := maps.Clone(r.body.(map[string]any))
		body[name] = value
		r.body = body
	}
}

func query(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values
}

// patientEvent creates an event with data and returns its ID.
func patientEvent(s *fixture) string {
	_, event, err := s.Platform.Patients.Update(s.Patient, model.PatientUpdate{LastName: new("Married")})
	require.NoError(s.t, err)
	return event.ID
}

func patient(s *fixture) string      { return s.Patient }
func practitioner(s *fixture) string { return s.Practitioner }
func active(s *fixture) string       { return s.Plan }
func draft(s *fixture) string        { return s.Draft }
func staff(s *fixture) string        { return s.Staff }

// canceled cancels the active plan and returns its ID.
func canceled(s *fixture) string {
	_, err := s.Client.TreatmentPlans.Cancel(s.t.Context(), s.Plan)
	require.NoError(s.t, err)
	return s.Plan
}

// onPlan changes the request to another plan.
func onPlan(plan func(*fixture) string) func(*fixture, *request) {
	return func(s *fixture, r *request) { r.path = []string{plan(s)} }
}

// rejections contains the wrong calls of operations that do not follow from the document.
var rejections = map[string][]rejection{
	"products.get": {{"another clinic's practitioner", 422, func(_ *fixture, r *request) { r.query = query("practitioner_id", "nobody") }}},
	"clinic.get": {
		{"unknown clinic key", 401, func(_ *fixture, r *request) { r.key = "ck_unknown" }},
		{"revoked clinic key", 401, func(s *fixture, r *request) {
			r.key = s.Platform.ClinicKey()
			_, err := s.Platform.Clinics.RevokeKey(r.key)
			require.NoError(s.t, err)
		}},
	},
	"metadata.list":                      {{"no identifier", 422, func(_ *fixture, r *request) { r.query = query("type", "patient") }}},
	"treatment_plans.update":             {{"canceled plan", 422, onPlan(canceled)}},
	"treatment_plans.cancel":             {{"draft", 422, onPlan(draft)}, {"canceled plan", 422, onPlan(canceled)}},
	"treatment_plans.activate":           {{"active plan", 422, onPlan(active)}, {"canceled plan", 422, onPlan(canceled)}},
	"treatment_plans.in_office_checkout": {{"draft", 422, onPlan(draft)}, {"canceled plan", 422, onPlan(canceled)}},
	"dynamic_links.get":                  {{"canceled plan", 422, onPlan(canceled)}},
	"dynamic_links.create": {
		{"unknown practitioner", 422, field("treatment_plan", map[string]any{"practitioner_id": "nobody"})},
		{"patient without e-mail address", 422, field("patient", map[string]any{"first_name": "Nora"})},
		{"no treatment_plan", 400, sent(map[string]any{})},
	},
	"oauth.authorize": {
		{"unknown client", 404, func(_ *fixture, r *request) { r.query.Set("client_id", "unknown") }},
		{"another address", 404, func(_ *fixture, r *request) { r.query.Set("redirect_uri", "https://example.org/") }},
		{"another response type", 303, func(_ *fixture, r *request) { r.query.Set("response_type", "token") }},
		{"malformed query", 400, func(_ *fixture, r *request) { r.query, r.rawQuery = nil, "state=%zz" }},
	},
	"oauth.token": {
		{"unknown refresh token", 400, func(s *fixture, r *request) {
			r.body = refreshGrant(s)
			field("refresh_token", "unknown")(s, r)
		}},
		{"unknown code", 400, field("code", "unknown")},
		{"unknown grant type", 400, field("grant_type", "password")},
		{"missing grant type", 400, field("grant_type", "")},
		{"another address", 400, field("redirect_uri", "https://example.org/")},
		{"wrong secret", 401, field("client_secret", "wrong")},
		{"unknown client", 401, field("client_id", "unknown")},
		{"number instead of text", 400, field("client_id", 7)},
		{"nothing", 400, sent(nil)},
		{"no JSON", 400, sent("grant_type=refresh_token")},
		{"no object", 400, sent("[]")},
		tooLarge,
	},
	"oauth.revoke": {
		{"missing token", 400, field("token", "")},
		{"wrong secret", 401, field("client_secret", "wrong")},
		{"nothing", 400, sent(nil)},
		{"no JSON", 400, sent("{")},
		tooLarge,
	},
}

// refreshGrant returns the body of a refresh.
func refreshGrant(s *fixture) map[string]any {
	app := s.Platform.Application()
	return map[string]any{
		"client_id": app.ClientID, "client_secret": app.ClientSecret, "grant_type": "refresh_token", "redirect_uri": app.RedirectURI,
		"refresh_token": s.Platform.Tokens.Issue(model.User{}).RefreshToken,
	}
}

func sent(body any) func(*fixture, *request) { return func(_ *fixture, r *request) { r.body = body } }
