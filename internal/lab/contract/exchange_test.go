package contract_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/contract"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
)

// described returns the operation of the document with a name.
func (s *fixture) described(name string) *openapi3.Operation {
	row := s.rows[name]
	return s.check.Document().Paths.Find(row.Route).GetOperation(row.Method)
}

// scopes returns the scopes of the token for the call of an operation.
func (s *fixture) scopes(name string) []string {
	if own := neededScopes[name]; own != nil {
		return own
	}
	return strings.Fields(s.rows[name].Scopes)
}

// prepared returns the request of the client's call, with a token of exactly the needed scopes.
func (s *fixture) prepared(name string) request {
	s.t.Helper()
	sent, body := calltest.Request(s.t, s.Fixture, name)
	r := request{query: sent.URL.Query()}
	route, path := strings.Split(s.rows[name].Route, "/"), strings.Split(sent.URL.Path, "/")
	for i, segment := range route {
		if routeParameter.MatchString(segment) {
			r.path = append(r.path, path[len(path)-len(route)+i])
		}
	}
	if body != nil {
		require.NoError(s.t, json.Unmarshal(body, &r.body))
	}
	if scopes := s.scopes(name); len(scopes) > 0 {
		r.token = s.tokenWith(scopes...)
	}
	return r
}

func TestOperationsRejectWrongRequests(t *testing.T) {
	t.Parallel()
	sheet := start(t) // for the names of the cases; each case has its own platform
	for name, row := range sheet.rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range append(breaches(name, row, sheet.described(name)), rejections[name]...) {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					s := start(t)
					wrong := s.prepared(name)
					r.change(s, &wrong)
					s.rejected(name, r.status, s.send(name, wrong))
				})
			}
		})
	}
}

// A token without one of the needed scopes is rejected with the name of the scope, and without
// an effect.
func TestOperationsRequireScopes(t *testing.T) {
	t.Parallel()
	s := start(t)
	before := s.world()
	for name := range s.rows {
		for _, missing := range s.scopes(name) {
			r := s.prepared(name)
			r.token = s.tokenWith(slices.DeleteFunc(s.Platform.Application().Scopes, func(have string) bool { return have == missing })...)
			e := s.send(name, r)
			s.rejected(name, http.StatusForbidden, e)
			assert.Contains(t, string(e.ResponseBody), missing, name)
			last := s.lastRequest()
			assert.False(t, last.Granted, name)
			assert.Contains(t, last.Scopes, missing, name)
		}
	}
	assert.JSONEq(t, before, s.world(), "a rejection changes nothing")
}

// world returns the records of the platform.
func (s *fixture) world() string {
	s.t.Helper()
	encoded, err := s.Platform.Snapshot()
	require.NoError(s.t, err)
	var snapshot struct{ World json.RawMessage }
	require.NoError(s.t, json.Unmarshal(encoded, &snapshot))
	require.NotEmpty(s.t, snapshot.World)
	return string(snapshot.World)
}

// Group scopes permit every operation of their members, and no other.
func TestGroupScopesGrantMembers(t *testing.T) {
	t.Parallel()
	assert.Panics(t, func() { start(t).tokenWith("clinic:raed") })
	for _, group := range []string{"clinic", "patients"} {
		for name, row := range loaded(t).Rows() {
			if row.Scopes == "" {
				continue
			}
			t.Run(group+" "+name, func(t *testing.T) {
				t.Parallel()
				s := start(t)
				r := s.prepared(name)
				r.token = s.tokenWith(group)
				e := s.send(name, r)
				if slices.ContainsFunc(s.scopes(name), func(scope string) bool { return !strings.HasPrefix(scope, group+":") }) {
					s.rejected(name, http.StatusForbidden, e)
					return
				}
				s.accepted(name, e)
			})
		}
	}
}

// The response to an unknown route follows the contract, and so does every other method of a known
// route. The journal lists the known methods.
func TestUnknownRoutesReturnNotFound(t *testing.T) {
	t.Parallel()
	s := start(t)
	unrouted := map[[2]string]bool{{"GET", "/clinic/nothing"}: false, {"GET", "/"}: false}
	for _, row := range s.rows {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			unrouted[[2]string{method, routeParameter.ReplaceAllString(row.Route, "probe")}] = true
		}
	}
	for _, row := range s.rows {
		delete(unrouted, [2]string{row.Method, routeParameter.ReplaceAllString(row.Route, "probe")})
	}
	delete(unrouted, [2]string{"POST", "/oauth/authorize"}) // the form of the page
	for route, known := range unrouted {
		req, err := http.NewRequest(route[0], s.Platform.Site().BaseURL+route[1], nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.token)
		e := s.exchange(req, nil)
		assert.Equal(t, 404, e.Response.StatusCode, route)
		assert.Empty(t, s.check.CheckUnrouted(e.Response, e.ResponseBody), route)
		last := s.lastRequest()
		assert.Empty(t, last.Operation, route)
		assert.Equal(t, known, len(last.Near) > 0, route)
	}
}

func TestPlainHTTPIsRejected(t *testing.T) {
	t.Parallel()
	s := over(t, &calltest.Fixture{Platform: dispensarytest.New(t, dispensarytest.WithTuning(dispensarytest.Tuning{TLSRequired: true}))})
	s.rejected("products.list", 403, s.send("products.list", request{token: s.token}))
}

// The authorize page and a code follow the contract.
func TestCodeExchangeFollowsContract(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.accepted("oauth.authorize", s.send("oauth.authorize", s.prepared("oauth.authorize")))
	exchange := s.prepared("oauth.token")
	s.accepted("oauth.token", s.send("oauth.token", exchange))
	s.rejected("oauth.token", 400, s.send("oauth.token", exchange)) // a code is valid once
}

// Options of the fake platform change values but never the structure.
func TestOptionsFollowContract(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]dispensarytest.Option{
		"clinic tokens":      dispensarytest.WithTuning(dispensarytest.Tuning{ClinicTokens: true}),
		"grace rotation":     dispensarytest.WithBehavior(behavior.RefreshRotationGrace),
		"immediate rotation": dispensarytest.WithBehavior(behavior.RefreshRotationImmediate),
		"active integration": dispensarytest.WithBehavior(behavior.IntegrationActivationFromTheStart),
		"Canada":             dispensarytest.WithEnvironment(api.CanadaSandbox),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, option)
			s.accepted("oauth.token", s.send("oauth.token", request{body: refreshGrant(s)}))
			for _, operation := range []string{"addresses.list", "clinic.get", "orders.list", "patients.get"} {
				s.accepted(operation, s.send(operation, s.prepared(operation)))
			}
		})
	}
}

// The requests and the responses of each client call follow the contract, with a token of exactly
// the needed scopes.
func TestClientFollowsContract(t *testing.T) {
	t.Parallel()
	for name, call := range calltest.All(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var options []dispensary.Option
			if scopes := s.scopes(name); len(scopes) > 0 {
				options = append(options, dispensary.WithTokenSource(s.Platform.TokenSource(model.User{}, scopes...)))
			}
			var recorder *contract.Recorder
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				recorder = &contract.Recorder{Base: base}
				return recorder
			}, options...)
			s.Platform.Journal.Reset()
			value, err := call(t.Context(), s.Fixture)
			require.NoError(t, err)
			s.Platform.Journal.CheckNoUnexpected(t)
			if name == "oauth.authorize" {
				return // only a browser requests it
			}
			s.Platform.Journal.CheckRequested(t, name)
			assert.Equal(t, name != "oauth.revoke", value != nil, "decoded response")
			operations := map[string]string{}
			for _, request := range s.Platform.Journal.Requests() {
				operations[request.ID] = request.Operation
			}
			require.NotEmpty(t, recorder.Exchanges)
			for _, e := range recorder.Exchanges {
				assert.Empty(t, s.check.CheckExchange(operations[e.Response.Header.Get("X-Request-Id")], e))
			}
		})
	}
}

func TestTableMatchesDocument(t *testing.T) {
	t.Parallel()
	rows := loaded(t).Rows()
	assert.Len(t, rows, 62, "61 endpoints and the authorize page")
	assert.Equal(t, contract.TableRows(), rows)
	calls := calltest.All(t)
	for name := range rows {
		assert.Contains(t, calls, name)
	}
	assert.Len(t, calls, len(rows))
}

// The fake platform serves every route of the document as the same operation.
func TestFakeServesDocumentedRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, row := range s.check.Rows() {
		req, err := http.NewRequest(row.Method, s.Platform.Site().BaseURL+routeParameter.ReplaceAllString(row.Route, "probe"), nil)
		require.NoError(t, err)
		s.exchange(req, nil)
		last := s.lastRequest()
		assert.Equal(t, []string{name, row.Method, row.Route}, []string{last.Operation, last.Method, last.Route})
	}
}

func TestEventTypesMatchDocument(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, value := range loaded(t).Document().Components.Schemas["EventType"].Value.Enum {
		documented = append(documented, value.(string))
	}
	assert.Equal(t, model.EventTypes(), documented)
}

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
