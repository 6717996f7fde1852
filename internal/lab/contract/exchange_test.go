package contract_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// scopes returns the scopes of the token for an exercise.
func (s *fixture) scopes(name string) []string {
	if own := exercises[name].scopes; own != nil {
		return own
	}
	return strings.Fields(s.rows[name].Scopes)
}

// prepared returns the successful request of an exercise, with a token of exactly the needed
// scopes.
func (s *fixture) prepared(name string) request {
	r := exercises[name].request(s)
	if scopes := s.scopes(name); len(scopes) > 0 {
		r.token = s.tokenWith(scopes...)
	}
	return r
}

func TestEveryOperationSucceeds(t *testing.T) {
	t.Parallel()
	for _, name := range exercised() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			status := exercises[name].status
			if status == 0 {
				status = http.StatusOK
			}
			s.accepted(name, status, s.send(name, s.prepared(name)))
		})
	}
}

func TestOperationsRejectWrongRequests(t *testing.T) {
	t.Parallel()
	sheet := start(t) // for the names of the cases; each case has its own platform
	for _, name := range exercised() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range append(breaches(name, sheet.rows[name], sheet.described(name), sheet.scopes(name)), exercises[name].rejections...) {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					s := start(t)
					s.rejected(name, r.status, s.send(name, s.prepared(name).with(func(q *request) { r.change(s, q) })))
				})
			}
		})
	}
}

// The response to an unknown route follows the contract.
func TestUnknownRoutesReturnNotFound(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, unrouted := range []struct{ method, path string }{
		{"GET", "/clinic/nothing"}, {"PUT", "/clinic/patients"}, {"DELETE", "/clinic/patients/1"}, {"GET", "/"}, {"GET", "/oauth/token"},
	} {
		req, err := http.NewRequest(unrouted.method, s.fake.Site().BaseURL+unrouted.path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.token)
		e := s.exchange(req, nil)
		assert.Equal(t, 404, e.Response.StatusCode, unrouted.path)
		assert.Empty(t, s.check.CheckUnrouted(e.Response, e.ResponseBody), unrouted.path)
	}
}

func TestPlainHTTPIsRejected(t *testing.T) {
	t.Parallel()
	s := start(t, dispensarytest.WithTuning(dispensarytest.Tuning{TLSRequired: true}))
	s.rejected("products.list", 403, s.send("products.list", request{token: s.token}))
}

// The exchange of a code from the authorize page follows the contract.
func TestCodeExchangeFollowsContract(t *testing.T) {
	t.Parallel()
	s := start(t)
	app := s.fake.Application()
	page := s.send("oauth.authorize", exercises["oauth.authorize"].request(s))
	back, err := s.fake.Approve(page.Request.URL.String(), model.User{})
	require.NoError(t, err)
	body := credentials(s)
	body["grant_type"], body["redirect_uri"], body["code"] = "authorization_code", app.RedirectURI, back.Query().Get("code")
	s.accepted("oauth.token", 200, s.send("oauth.token", request{body: body}))
	s.rejected("oauth.token", 400, s.send("oauth.token", request{body: body})) // a code is valid once
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
			for _, operation := range []string{"oauth.token", "addresses.list", "orders.list", "patients.get"} {
				s.accepted(operation, 200, s.send(operation, s.prepared(operation)))
			}
			s.accepted("clinic.get", 200, s.send("clinic.get", request{token: s.token}))
		})
	}
}

// The request and the response of each client call follow the contract.
func TestClientFollowsContract(t *testing.T) {
	t.Parallel()
	made := calltest.All(t)
	assert.ElementsMatch(t, exercised(), slices.Collect(maps.Keys(made)))
	for _, name := range exercised() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			var recorder *contract.Recorder
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				recorder = &contract.Recorder{Base: base}
				return recorder
			})
			require.Contains(t, made, name)
			s.Platform.Journal.Reset()
			value, err := made[name](t.Context(), s)
			require.NoError(t, err)
			s.Platform.Journal.CheckNoUnexpected(t)
			if name == "oauth.authorize" {
				return // only a browser requests it
			}
			s.Platform.Journal.CheckRequested(t, name)
			assert.Equal(t, name != "oauth.revoke", value != nil, "decoded response")
			keepsContract(t, s.Platform, recorder)
		})
	}
}

// keepsContract checks the recorded exchanges of a platform. Its journal contains their operations.
func keepsContract(t *testing.T, platform *dispensarytest.Server, recorder *contract.Recorder) {
	t.Helper()
	check := loaded(t)
	operations := map[string]string{}
	for _, request := range platform.Journal.Requests() {
		operations[request.ID] = request.Operation
	}
	require.NotEmpty(t, recorder.Exchanges)
	for _, e := range recorder.Exchanges {
		assert.Empty(t, check.CheckExchange(operations[e.Response.Header.Get("X-Request-Id")], e))
	}
}

func TestTableMatchesDocument(t *testing.T) {
	t.Parallel()
	rows := loaded(t).Rows()
	assert.Len(t, rows, 62, "61 endpoints and the authorize page")
	assert.Equal(t, contract.TableRows(), rows)
	for name := range rows {
		assert.Contains(t, exercises, name)
	}
	assert.Len(t, exercises, len(rows))
}

// The fake platform serves every route of the document as the same operation.
func TestFakeServesDocumentedRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, row := range s.check.Rows() {
		req, err := http.NewRequest(row.Method, s.fake.Site().BaseURL+routeParameter.ReplaceAllString(row.Route, "probe"), nil)
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
