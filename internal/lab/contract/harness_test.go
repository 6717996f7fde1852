package contract_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/contract"
)

var load = sync.OnceValues(contract.Load)

// loaded returns the validator shared by all tests. It is safe for concurrent use.
func loaded(t *testing.T) *contract.Validator {
	t.Helper()
	check, err := load()
	require.NoError(t, err)
	return check
}

// fixture is a fake platform for one test, with the contract that it must follow.
type fixture struct {
	t     *testing.T
	fake  *dispensarytest.Server
	check *contract.Validator
	rows  map[string]contract.Row
	token string // token of the first practitioner, with every scope
}

func start(t *testing.T, options ...dispensarytest.Option) *fixture {
	check := loaded(t)
	s := &fixture{t: t, fake: dispensarytest.New(t, options...), check: check, rows: check.Rows()}
	s.token = s.fake.Tokens.Issue(model.User{}).AccessToken
	return s
}

// request describes a call of an operation.
type request struct {
	path     []string // values of the route's parameters
	query    url.Values
	rawQuery string // replaces query
	body     any    // value to encode as JSON, or a string to send unchanged
	token    string // empty means no token
	key      string // clinic key
}

// with returns a copy of the request after change has modified it.
func (r request) with(change func(*request)) request {
	r.path, r.query = slices.Clone(r.path), maps.Clone(r.query)
	change(&r)
	return r
}

var routeParameter = regexp.MustCompile(`\{\w+\}`)

// address returns the URL of a request.
func (s *fixture) address(operation string, r request) string {
	row := s.rows[operation]
	values := slices.Clone(r.path)
	route := routeParameter.ReplaceAllStringFunc(row.Route, func(string) string {
		require.NotEmpty(s.t, values, "%s: the exercise has too few path values", operation)
		value := values[0]
		values = values[1:]
		return url.PathEscape(value)
	})
	require.Empty(s.t, values, "%s: the exercise has too many path values", operation)
	base := s.fake.Site().BaseURL
	if operation == "oauth.authorize" {
		base = s.fake.Site().AuthURL
	}
	query := r.query.Encode() + r.rawQuery
	if query != "" {
		query = "?" + query
	}
	return base + route + query
}

// send calls an operation over HTTP.
func (s *fixture) send(operation string, r request) contract.Exchange {
	s.t.Helper()
	row, known := s.rows[operation]
	require.True(s.t, known, "the document has no operation %s", operation)
	var payload []byte
	switch body := r.body.(type) {
	case nil:
	case string:
		payload = []byte(body)
	default:
		var err error
		payload, err = json.Marshal(body)
		require.NoError(s.t, err)
	}
	req, err := http.NewRequest(row.Method, s.address(operation, r), bytes.NewReader(payload))
	require.NoError(s.t, err)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.key != "" {
		req.Header.Set("X-SVC-Clinic-Key", r.key)
	}
	if payload != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return s.exchange(req, payload)
}

func (s *fixture) exchange(req *http.Request, payload []byte) contract.Exchange {
	s.t.Helper()
	client := *s.fake.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	response, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return contract.Exchange{Request: req, RequestBody: payload, Response: resp, ResponseBody: response}
}

// accepted requires a status, and that request and response follow the contract.
func (s *fixture) accepted(operation string, status int, e contract.Exchange) {
	s.t.Helper()
	require.Equal(s.t, status, e.Response.StatusCode, "%s: %s", operation, e.ResponseBody)
	assert.Empty(s.t, s.check.CheckExchange(operation, e))
}

// rejected requires a status, and that the response follows the contract. The request is
// deliberately wrong.
func (s *fixture) rejected(operation string, status int, e contract.Exchange) {
	s.t.Helper()
	assert.Equal(s.t, status, e.Response.StatusCode, "%s: %s", operation, e.ResponseBody)
	assert.Empty(s.t, s.check.CheckResponse(operation, e.Response, e.ResponseBody))
}

// tokenWith returns a token with only these scopes.
func (s *fixture) tokenWith(scopes ...string) string {
	return s.fake.Tokens.Issue(model.User{}, scopes...).AccessToken
}

// value makes a successful call and returns the value in its response.
func (s *fixture) value(operation string, r request) any {
	s.t.Helper()
	r.token = s.token
	e := s.send(operation, r)
	require.Less(s.t, e.Response.StatusCode, 300, "%s: %s", operation, e.ResponseBody)
	var body map[string]any
	require.NoError(s.t, json.Unmarshal(e.ResponseBody, &body))
	return body[s.rows[operation].Key]
}

// first returns the ID of the first item of a list.
func (s *fixture) first(operation string, path ...string) string {
	s.t.Helper()
	items, isList := s.value(operation, request{path: path}).([]any)
	require.True(s.t, isList && len(items) > 0, "%s: the list is empty", operation)
	return items[0].(map[string]any)["id"].(string)
}

func (s *fixture) patient() string { return s.fake.Patients.All()[0].ID }
func (s *fixture) lastRequest() model.Request {
	all := s.fake.Journal.Requests()
	require.NotEmpty(s.t, all)
	return all[len(all)-1]
}

func (s *fixture) practitioner() string { return s.fake.Practitioners.All()[0].ID }
func (s *fixture) product() string      { return s.fake.Products.All()[0].ID }
func (s *fixture) variant() string      { return s.fake.Products.All()[0].VariantIDs[0] }

// newPlan returns the body of a request that creates a plan.
func (s *fixture) newPlan(state any) map[string]any {
	return map[string]any{
		"practitioner_id": s.practitioner(), "personal_message": "Twice a day.", "state": state,
		"metadata": map[string]any{"id": "plan-7"},
		"recommendations": []any{
			map[string]any{
				"variant_id": s.variant(), "refill": true, "units_to_purchase": 2,
				"dosage": map[string]any{"amount": "1-2", "frequency": "twice per day", "duration": nil, "format": "capsule", "additional_info": "With food."},
			},
			map[string]any{"variant_id": s.variant(), "refill": "false", "units_to_purchase": "10"},
		},
	}
}

// plan creates a plan through the API and returns its ID.
func (s *fixture) plan(state string) string {
	s.t.Helper()
	made := s.value("treatment_plans.create", request{path: []string{s.patient()}, body: s.newPlan(state)})
	return made.(map[string]any)["id"].(string)
}

// cancelled creates and cancels a plan and returns its ID.
func (s *fixture) cancelled() string {
	s.t.Helper()
	id := s.plan("active")
	s.value("treatment_plans.cancel", request{path: []string{id}})
	return id
}
