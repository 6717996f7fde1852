package contract_test

import (
	"bytes"
	"encoding/json"
	"io"
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
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
)

var load = sync.OnceValues(contract.Load)

// loaded returns the validator shared by all tests. It is safe for concurrent use.
func loaded(t *testing.T) *contract.Validator {
	t.Helper()
	check, err := load()
	require.NoError(t, err)
	return check
}

// fixture is a fake platform with records and a client, and the contract that both must follow.
type fixture struct {
	*calltest.Fixture
	t     *testing.T
	check *contract.Validator
	rows  map[string]contract.Row
	token string // token of the first practitioner, with every scope
}

func start(t *testing.T, options ...dispensarytest.Option) *fixture {
	return over(t, calltest.NewFixture(t, options...))
}

func over(t *testing.T, f *calltest.Fixture) *fixture {
	check := loaded(t)
	return &fixture{f, t, check, check.Rows(), f.Platform.Tokens.Issue(model.User{}).AccessToken}
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

var routeParameter = regexp.MustCompile(`\{\w+\}`)

// address returns the URL of a request.
func (s *fixture) address(operation string, r request) string {
	row := s.rows[operation]
	values := slices.Clone(r.path)
	route := routeParameter.ReplaceAllStringFunc(row.Route, func(string) string {
		require.NotEmpty(s.t, values, "%s: the request has too few path values", operation)
		value := values[0]
		values = values[1:]
		return url.PathEscape(value)
	})
	require.Empty(s.t, values, "%s: the request has too many path values", operation)
	base := s.Platform.Site().BaseURL
	if operation == "oauth.authorize" {
		base = s.Platform.Site().AuthURL
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
	client := *s.Platform.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	response, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return contract.Exchange{Request: req, RequestBody: payload, Response: resp, ResponseBody: response}
}

// accepted requires success, and that request and response follow the contract.
func (s *fixture) accepted(operation string, e contract.Exchange) {
	s.t.Helper()
	require.Equal(s.t, 2, e.Response.StatusCode/100, "%s: %d %s", operation, e.Response.StatusCode, e.ResponseBody)
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
	return s.Platform.Tokens.Issue(model.User{}, scopes...).AccessToken
}

func (s *fixture) lastRequest() model.Request {
	all := s.Platform.Journal.Requests()
	require.NotEmpty(s.t, all)
	return all[len(all)-1]
}
