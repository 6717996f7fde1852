package control

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

func TestSettingsListUsersAndSecrets(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	_, got := r.call("GET", "/settings", "")
	assert.Equal(t, r.fake.Site().BaseURL, got["base_url"])
	assert.Equal(t, r.fake.Site().AuthURL, got["auth_url"])
	assert.Equal(t, r.url, got["control_url"])
	assert.Equal(t, r.fake.Application().ClientSecret, got["client_secret"])
	assert.Equal(t, r.fake.ClinicKey(), got["clinic_key"])
	assert.Len(t, got, 11)
	users := got["users"].([]any)
	require.Len(t, users, len(r.fake.Users()))
	assert.Equal(t, map[string]any{
		"email": r.fake.Users()[0].Email, "password": r.fake.Users()[0].Password, "type": "Practitioner", "id": r.fake.Users()[0].ID,
	}, users[0])
}

func TestContractIsServed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	response, err := http.Get(r.url + "/openapi.yaml")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	assert.Equal(t, "application/yaml", response.Header.Get("Content-Type"))
	assert.Equal(t, int64(len(contract())), response.ContentLength)
}

// serve sends a request like a program on this machine, after change has modified it.
func serve(t *testing.T, method, address string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, address, nil)
	r.RemoteAddr = "127.0.0.1:4711"
	change(r)
	w := httptest.NewRecorder()
	New(dispensarytest.New(t, dispensarytest.WithInMemory()), Options{}).ServeHTTP(w, r)
	return w
}

func TestForeignCallersAreRejected(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(r *http.Request)
		status int
	}{
		"a program on this machine": {func(*http.Request) {}, 200},
		"under its address":         {func(r *http.Request) { r.Host = "[::1]:8080" }, 200},
		"without a port":            {func(r *http.Request) { r.Host = "127.0.0.1" }, 200},
		"with a character set":      {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") }, 200},
		"another machine":           {func(r *http.Request) { r.RemoteAddr = "192.0.2.7:4711" }, 403},
		"no address":                {func(r *http.Request) { r.RemoteAddr = "" }, 403},
		"a rebound name":            {func(r *http.Request) { r.Host = "evil.example.com:8080" }, 403},
		"a page of another site":    {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"a page of another port":    {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		"a page of an old browser":  {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, 403},
		"a sandboxed page":          {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"a form":                    {func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415},
		"plain text":                {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, 415},
		"no content type":           {func(r *http.Request) { r.Header.Del("Content-Type") }, 415},
	} {
		w := serve(t, "POST", "http://localhost:8080/reset", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
			test.change(r)
		})
		assert.Equal(t, test.status, w.Code, name)
		assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
		assert.Empty(t, w.Header().Get("Access-Control-Allow-Origin"), name)
	}
}

// The error of a wrong path comes before that of a wrong content type.
func TestErrorNamesUnknownPath(t *testing.T) {
	t.Parallel()
	for method, path := range map[string]string{"POST": "/platform.place_order", "DELETE": "/patients"} {
		w := serve(t, method, "http://localhost"+path, func(r *http.Request) { r.RemoteAddr = "[::1]:4711" })
		assert.Equal(t, http.StatusNotFound, w.Code, path)
		assert.Contains(t, w.Body.String(), "there is no "+method+" "+path)
	}
}

// Web pages cannot even read, because computing a response has a cost.
func TestWebPagesCannotRead(t *testing.T) {
	t.Parallel()
	w := serve(t, "GET", "http://localhost/settings", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
	assert.Equal(t, http.StatusForbidden, w.Code)
	assert.NotContains(t, w.Body.String(), "client_secret")
}

func TestErrorsNameCause(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	r.refused("GET", "/nothing", "", 404, "there is no GET /nothing")
	r.refused("DELETE", "/patients", "", 404, "there is no DELETE /patients")
	r.refused("GET", "/patients?limits=1", "", 422, `no query parameter "limits"`)
	r.refused("GET", "/patients?limit=-1", "", 422, "limit must be a whole number")
	r.refused("POST", "/patients", `{"e_mail":"x@example.com"}`, 422, `no field "e_mail", only first_name, last_name, email`)
	r.refused("POST", "/patients", `{"email":7}`, 422, "email must be a string")
	r.refused("POST", "/patients", `[]`, 422, "the body must be a JSON object")
	r.refused("POST", "/patients", `{"email":"x"`, 422, "the body must be a JSON object")
	r.refused("POST", "/patients", `{"email":"no address"}`, 422, "CreatePatient: invalid")
	r.refused("POST", "/patients", `{"email":"`+strings.Repeat("x", maxBody)+`"}`, 413, "larger than 1 MiB")
	r.refused("POST", "/plans/x/activate", "", 404, "ActivatePlan: not found")
	r.refused("POST", "/patients/"+r.patient()+"/orders", `{"lines":[{"quantity":"2"}]}`, 422, "lines[0].quantity must be a whole number")
	r.refused("POST", "/patients/"+r.patient()+"/orders", `{"lines":2}`, 422, "lines must be a list")
	r.refused("POST", "/orders/x/refund", `{"amount":"4.5"}`, 422, `such as "19.99"`)
	r.refused("POST", "/orders/x/refund", `{"amount":4.5}`, 422, `such as "19.99"`)
	r.refused("POST", "/tokens", `{"user":"nobody@example.com"}`, 404, "nobody@example.com")
	r.refused("POST", "/tokens", `{"scopes":["everything"]}`, 422, "everything")
	r.refused("POST", "/tokens/expire", `{"access_token":"x"}`, 422, "no such access token")
	r.refused("POST", "/clock/advance", `{}`, 422, "either by or to")
	r.refused("POST", "/clock/advance", `{"by":"soon"}`, 422, "must be a duration")
	r.refused("POST", "/clock/advance", `{"by":"-1s"}`, 422, "forward")
	r.refused("POST", "/clock/advance", `{"to":"yesterday"}`, 422, "to must be a time such as")
	r.refused("POST", "/clock/advance", `{"to":"2020-01-01T00:00:00Z"}`, 422, "forward")
	r.refused("POST", "/webhook/enable", "", 409, "no webhook endpoint is registered")
	r.refused("PUT", "/webhook", `{"url":"http://example.com"}`, 422, "is plain HTTP and not on loopback")
	r.refused("GET", "/events/x/delivery?timeout=1h", "", 422, "timeout must be a duration")
	r.refused("POST", "/faults", `{"effect":"flood"}`, 422, `unknown effect "flood"`)
	r.refused("POST", "/faults", `{"effect":"latency","delay":5}`, 422, "delay must be a duration")
	r.refused("DELETE", "/faults/fault-7", "", 404, "fault-7")
}

func TestCallWithoutHTTP(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, dispensarytest.WithInMemory())
	api := New(fake, Options{})
	status, answer := api.Call(t.Context(), "POST", "/patients", strings.NewReader(`{"first_name":"Robin"}`))
	assert.Equal(t, 200, status, string(answer))
	status, answer = api.Call(t.Context(), "GET", "/patients?limit=1&order_by=DESC", nil)
	assert.Equal(t, 200, status)
	assert.Contains(t, string(answer), `"first_name":"Robin"`)
	status, answer = api.Call(t.Context(), "GET", "/none", nil)
	assert.Equal(t, 404, status)
	assert.Contains(t, string(answer), "there is no")
	status, _ = api.Call(t.Context(), "NO SUCH", "/none", nil)
	assert.Equal(t, 400, status)
}
