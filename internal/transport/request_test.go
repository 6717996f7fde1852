package transport

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// sent returns the request and the body for a call.
func sent(t *testing.T, call Call, change ...func(*Config)) (*http.Request, []byte, error) {
	t.Helper()
	var o outgoing
	request, err := o.build(t.Context(), &newTestClient(t, nil, change...).endpoint, &call)
	return request, o.body, err
}

func TestPathElementsAreEscaped(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"p1":          "/api/clinic/patients/p1/treatment_plans",
		"a/b":         "/api/clinic/patients/a%2Fb/treatment_plans",
		"a?b#c":       "/api/clinic/patients/a%3Fb%23c/treatment_plans",
		"a b":         "/api/clinic/patients/a%20b/treatment_plans",
		"é":           "/api/clinic/patients/%C3%A9/treatment_plans",
		"%2e%2e":      "/api/clinic/patients/%252e%252e/treatment_plans",
		"../../admin": "/api/clinic/patients/..%2F..%2Fadmin/treatment_plans",
	} {
		r, _, err := sent(t, Call{Operation: operation.TreatmentPlanList, Path: []string{id}})
		require.NoError(t, err, id)
		assert.Equal(t, want, r.URL.RequestURI(), id)
		again, err := url.Parse(r.URL.String())
		require.NoError(t, err)
		assert.Equal(t, r.URL.Path, again.Path, "the path and its escaped form agree")
	}
}

type search struct {
	Query string   `url:"query,omitempty"`
	IDs   []string `url:"allergen_ids,omitempty,brackets"`
}

func TestQueryIsEncoded(t *testing.T) {
	t.Parallel()
	r, _, err := sent(t, Call{Operation: operation.ProductSearch, Query: search{Query: "a&b", IDs: []string{"1", "2"}}})
	require.NoError(t, err)
	assert.Equal(t, url.Values{"query": {"a&b"}, "allergen_ids[]": {"1", "2"}}, r.URL.Query())

	r, _, err = sent(t, Call{Operation: operation.ProductSearch, Query: search{}})
	require.NoError(t, err)
	assert.Empty(t, r.URL.RawQuery)

	r, _, err = sent(t, Call{Operation: operation.ProductSearch, Query: url.Values{"x": {"1"}}})
	require.NoError(t, err)
	assert.Equal(t, "x=1", r.URL.RawQuery)
}

// choosy is a query field that checks itself.
type choosy struct{}

func (choosy) EncodeValues(string, *url.Values) error {
	return &api.ArgumentError{Field: "CreatedAt", Reason: "ends before it begins"}
}

type leaky struct{}

func (leaky) EncodeValues(string, *url.Values) error { return errors.New("canary") }

func TestQueryErrorNamesField(t *testing.T) {
	t.Parallel()
	_, _, err := sent(t, Call{Operation: operation.OrderList, Query: struct{ C choosy }{}})
	assert.EqualError(t, err, "dispensary: orders.list: CreatedAt ends before it begins")
	_, _, err = sent(t, Call{Operation: operation.OrderList, Query: struct{ L leaky }{}})
	require.ErrorIs(t, err, api.ErrArgument)
	assert.NotContains(t, err.Error(), "canary")
}

func TestBodyIsJSON(t *testing.T) {
	t.Parallel()
	r, body, err := sent(t, Call{Operation: operation.PatientCreate, Body: thing{ID: "p1", Size: 2}})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"p1","size":2}`, string(body))
	assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
	assert.EqualValues(t, len(body), r.ContentLength)

	r, body, err = sent(t, Call{Operation: operation.TreatmentPlanCancel, Path: []string{"t1"}})
	require.NoError(t, err)
	assert.Empty(t, body)
	assert.NotContains(t, r.Header, "Content-Type")

	_, _, err = sent(t, Call{Operation: operation.PatientCreate, Body: math.NaN()})
	assert.EqualError(t, err, "dispensary: patients.create: body is not valid")
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	key := func(c *Config) { c.ClinicKey = api.NewSecret("clinic-key") }
	r, _, err := sent(t, Call{Operation: operation.ClinicGet}, key)
	require.NoError(t, err)
	assert.Equal(t, http.Header{
		"Accept": {"application/json"}, "User-Agent": {"test dispensary-go/" + Version()}, "X-Svc-Clinic-Key": {"clinic-key"},
	}, r.Header)
}

func TestCaptureResponseStoresSuccessAndFailure(t *testing.T) {
	t.Parallel()
	for _, status := range []int{201, 422} {
		transport := says(status, `{"patient":{}}`, "X-Extra", "yes")
		var response api.Response
		_ = create(t.Context(), newTestClient(t, transport), api.CaptureResponse(&response))
		assert.Equal(t, status, response.StatusCode)
		assert.Equal(t, "req-1", response.RequestID)
		assert.Equal(t, "yes", response.Header.Get("X-Extra"))
		assert.Equal(t, 1, response.Attempts)
	}
}

func TestRawReturnsResponseBody(t *testing.T) {
	t.Parallel()
	transport := &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
		assert.Equal(t, "/api/versions/caf%C3%A9", r.URL.EscapedPath())
		assert.Equal(t, "a=1", r.URL.RawQuery)
		assert.Equal(t, "Bearer token-canary", r.Header.Get("Authorization"))
		return reply(200, `{"anything":1}`), nil
	}}
	client := newTestClient(t, transport)
	body, err := Raw(t.Context(), client, "PATCH", "/versions/café", url.Values{"a": {"1"}}, json.RawMessage(`{"x":1}`), nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"anything":1}`, string(body))

	for _, path := range []string{"", "versions", "/%2e%2E/canary", "/a/b%2F..%2Fcanary", "/canary%zz", "/canary%ff", "/a?b=canary", "/a#canary", "/../canary", "/a/./canary", "https://canary.example/"} {
		_, err := Raw(t.Context(), client, "GET", path, nil, nil, nil)
		require.ErrorIs(t, err, api.ErrArgument, path)
		assert.NotContains(t, err.Error(), "canary")
	}
	_, err = Raw(t.Context(), client, "get", "/versions", nil, nil, nil)
	assert.ErrorIs(t, err, api.ErrArgument)
}

// A raw path is sent as written, except that unescaped characters are escaped.
func TestRawPathIsEscaped(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/patients/a%2Fb":       "/api/patients/a%2Fb",
		"/patients/a%252Fb":     "/api/patients/a%252Fb",
		"/café/a%2Fb%20c d":     "/api/caf%C3%A9/a%2Fb%20c%20d",
		"/versions/2:latest@eu": "/api/versions/2:latest@eu",
		"/a%3Fb/":               "/api/a%3Fb/",
	} {
		var sent string
		client := newTestClient(t, &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
			sent = r.URL.RequestURI()
			return reply(200, `{}`), nil
		}})
		_, err := Raw(t.Context(), client, "GET", path, nil, nil, nil)
		require.NoError(t, err, path)
		assert.Equal(t, want, sent)
	}
}

func TestRawErrorHidesPath(t *testing.T) {
	t.Parallel()
	transport := &responder{respond: func(int, *http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }}
	_, err := Raw(t.Context(), newTestClient(t, transport), "POST", "/people/Jane", nil, nil, nil)
	require.ErrorIs(t, err, api.ErrMaybeApplied)
	for _, text := range texts(err) {
		assert.NotContains(t, text, "Jane")
	}
}

// unsendable are values that net/http rejects only when it sends them.
var unsendable = []string{"canary\n", "canary\r\nX-Other: 1", "can\x00ary", "canary\x7f", "\x1bcanary"}

func TestNewRejectsInvalidHeaderValues(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(*Config, string){
		"ClinicKey": func(c *Config, value string) { c.ClinicKey = api.NewSecret(value) },
		"UserAgent": func(c *Config, value string) { c.UserAgent = value },
	} {
		for _, value := range unsendable {
			config := Config{Site: api.Site{Environment: sandbox, BaseURL: "https://platform.example/api", AuthURL: "https://auth.example"}}
			set(&config, value)
			_, err := New(config)
			assertRejected(t, err, field)
		}
	}
}

// assertRejected checks that the error names the field, means that no request was sent, and
// contains no value.
func assertRejected(t *testing.T, err error, field string) {
	t.Helper()
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, field, argument.Field)
	assert.Contains(t, argument.Reason, "control character")
	require.ErrorIs(t, err, api.ErrArgument)
	require.ErrorIs(t, err, api.ErrNotSent)
	require.NotErrorIs(t, err, api.ErrMaybeApplied)
	for _, text := range texts(err) {
		assert.NotContains(t, text, "canary")
		assert.NotContains(t, text, "X-Other")
	}
}

func TestInvalidTokenIsRejected(t *testing.T) {
	t.Parallel()
	transport := &responder{}
	for _, value := range unsendable {
		token := validToken()
		token.Secret = api.NewSecret(value)
		client := newTestClient(t, transport, withTokens(static{token}))
		for _, err := range []error{create(t.Context(), client), get(t.Context(), client)} {
			assertRejected(t, err, "AccessToken.Secret")
			failure := failureOf(t, err)
			assert.Zero(t, failure.Attempts)
		}
	}
	assert.Zero(t, transport.calls.Load())
}
