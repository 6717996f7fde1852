package control

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
)

// fixture is a fake platform with its control API on a socket.
type fixture struct {
	t    *testing.T
	fake *dispensarytest.Server
	url  string
}

func newFixture(t *testing.T, opts ...dispensarytest.Option) *fixture {
	t.Helper()
	active := dispensarytest.WithBehavior(behavior.IntegrationActivationFromTheStart)
	fake := dispensarytest.New(t, append([]dispensarytest.Option{active}, opts...)...)
	server := httptest.NewUnstartedServer(nil)
	at := "http://" + server.Listener.Addr().String() + "/control"
	server.Config.Handler = http.StripPrefix("/control", New(fake, Options{ControlURL: at, ConsoleURL: "http://localhost/console"}))
	server.Start()
	t.Cleanup(server.Close)
	return &fixture{t: t, fake: fake, url: at}
}

// call sends a request and returns the status and the decoded response.
func (r *fixture) call(method, path, body string) (int, map[string]any) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if method != http.MethodGet {
		request.Header.Set("Content-Type", "application/json")
	}
	return r.send(request)
}

func (r *fixture) send(request *http.Request) (int, map[string]any) {
	r.t.Helper()
	response, err := http.DefaultClient.Do(request)
	require.NoError(r.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	decoded := map[string]any{}
	require.NoError(r.t, json.Unmarshal(text, &decoded), "%s", text)
	return response.StatusCode, decoded
}

// ok requires status 200 and returns the value at a path of keys.
func (r *fixture) ok(method, path, body string, keys ...string) any {
	r.t.Helper()
	status, decoded := r.call(method, path, body)
	require.Equal(r.t, http.StatusOK, status, "%v", decoded)
	var at any = decoded
	for _, key := range keys {
		object, isObject := at.(map[string]any)
		require.True(r.t, isObject, "%v", decoded)
		require.Contains(r.t, object, key)
		at = object[key]
	}
	return at
}

// only requires a list with one row and returns the row.
func (r *fixture) only(path, key string) map[string]any {
	r.t.Helper()
	rows := r.ok("GET", path, "", key).([]any)
	require.Len(r.t, rows, 1)
	return rows[0].(map[string]any)
}

// rejected requires an error with this status and text.
func (r *fixture) rejected(method, path, body string, status int, text string) {
	r.t.Helper()
	got, response := r.call(method, path, body)
	require.Equal(r.t, status, got, "%v", response)
	require.Contains(r.t, response["error"], text)
}

func (r *fixture) patient() string { return r.fake.Patients.All()[0].ID }

func frozen() dispensarytest.Option {
	return dispensarytest.WithClock(dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)))
}

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
	r.rejected("GET", "/nothing", "", 404, "there is no GET /nothing")
	r.rejected("DELETE", "/patients", "", 404, "there is no DELETE /patients")
	r.rejected("GET", "/patients?limits=1", "", 422, `no query parameter "limits"`)
	r.rejected("GET", "/patients?limit=-1", "", 422, "limit must be a whole number")
	r.rejected("POST", "/patients", `{"e_mail":"x@example.com"}`, 422, `no field "e_mail", only first_name, last_name, email`)
	r.rejected("POST", "/patients", `{"email":7}`, 422, "email must be a string")
	r.rejected("POST", "/patients", `[]`, 422, "the body must be a JSON object")
	r.rejected("POST", "/patients", `{"email":"x"`, 422, "the body must be a JSON object")
	r.rejected("POST", "/patients", `{"email":"no address"}`, 422, "CreatePatient: invalid")
	r.rejected("POST", "/patients", `{"email":"`+strings.Repeat("x", maxBody)+`"}`, 413, "larger than 1 MiB")
	r.rejected("POST", "/plans/x/activate", "", 404, "ActivatePlan: not found")
	r.rejected("POST", "/patients/"+r.patient()+"/orders", `{"lines":[{"quantity":"2"}]}`, 422, "lines[0].quantity must be a whole number")
	r.rejected("POST", "/patients/"+r.patient()+"/orders", `{"lines":2}`, 422, "lines must be a list")
	r.rejected("POST", "/orders/x/refund", `{"amount":"4.5"}`, 422, `such as "19.99"`)
	r.rejected("POST", "/orders/x/refund", `{"amount":4.5}`, 422, `such as "19.99"`)
	r.rejected("POST", "/tokens", `{"user":"nobody@example.com"}`, 404, "nobody@example.com")
	r.rejected("POST", "/tokens", `{"scopes":["everything"]}`, 422, "everything")
	r.rejected("POST", "/tokens/expire", `{"access_token":"x"}`, 422, "no such access token")
	r.rejected("POST", "/clock/advance", `{}`, 422, "either by or to")
	r.rejected("POST", "/clock/advance", `{"by":"soon"}`, 422, "must be a duration")
	r.rejected("POST", "/clock/advance", `{"by":"-1s"}`, 422, "forward")
	r.rejected("POST", "/clock/advance", `{"to":"yesterday"}`, 422, "to must be a time such as")
	r.rejected("POST", "/clock/advance", `{"to":"2020-01-01T00:00:00Z"}`, 422, "forward")
	r.rejected("POST", "/webhook/enable", "", 409, "no webhook endpoint is registered")
	r.rejected("PUT", "/webhook", `{"url":"http://example.com"}`, 422, "is plain HTTP and not on loopback")
	r.rejected("GET", "/events/x/delivery?timeout=1h", "", 422, "timeout must be a duration")
	r.rejected("POST", "/faults", `{"effect":"flood"}`, 422, `unknown effect "flood"`)
	r.rejected("POST", "/faults", `{"effect":"latency","delay":5}`, 422, "delay must be a duration")
	r.rejected("DELETE", "/faults/fault-7", "", 404, "fault-7")
}

func TestCallWithoutHTTP(t *testing.T) {
	t.Parallel()
	fake := dispensarytest.New(t, dispensarytest.WithInMemory())
	api := New(fake, Options{})
	status, response := api.Call(t.Context(), "POST", "/patients", strings.NewReader(`{"first_name":"Robin"}`))
	assert.Equal(t, 200, status, string(response))
	status, response = api.Call(t.Context(), "GET", "/patients?limit=1&order_by=DESC", nil)
	assert.Equal(t, 200, status)
	assert.Contains(t, string(response), `"first_name":"Robin"`)
	status, response = api.Call(t.Context(), "GET", "/none", nil)
	assert.Equal(t, 404, status)
	assert.Contains(t, string(response), "there is no")
	status, _ = api.Call(t.Context(), "NO SUCH", "/none", nil)
	assert.Equal(t, 400, status)
}

// Times and pointers are nullable. Durations and amounts are strings. A stored body is text.
func TestContractDescribesTypes(t *testing.T) {
	t.Parallel()
	text := string(contract())
	for _, want := range []string{`
  /events/{event_id}/delivery:
    get:
      operationId: events.wait_delivered
      summary: "Waits until an event was delivered for every integration. Returns the reason if it was not."
      tags: [events]
      parameters:
        - {name: event_id, in: path, required: true, schema: {type: string}}
        - {name: timeout, in: query, description: "longest wait: default 5s, at most 1m", schema: {type: string}}
      responses:
        "200":
          description: Done
          content: {application/json: {schema: {$ref: '#/components/schemas/Outcome'}}}
        4XX: {$ref: '#/components/responses/Refused'}
`, `
  /faults/{fault_id}:
    delete:
      operationId: faults.remove
`, `
        - {name: limit, in: query, description: "maximum number of rows: default 100, at most 1000. A page also ends at 96 KiB.", schema: {type: integer, minimum: 0}}
`, `
          content: {application/json: {schema: {type: object, properties: {skips: {type: array, items: {$ref: '#/components/schemas/Skip'}}, next: {type: [string, 'null']}, total: {type: integer}}, required: [skips, next, total]}}}
`, `
          content: {application/json: {schema: {anyOf: [{$ref: '#/components/schemas/Endpoint'}, {type: 'null'}]}}}
`, `
      requestBody:
        content: {application/json: {schema: {$ref: '#/components/schemas/Refund'}}}
`, `
    Refund:
      type: object
      properties:
        amount: {type: string, examples: ["19.99"]}
`, `
    Nothing:
      type: object
`, `
        now: {type: [string, 'null'], format: date-time}
        frozen: {type: boolean}
`, `
        chance: {type: number}
        seed: {type: integer}
        delay: {type: string, examples: [1m30s]}
`, `
        request_body: {type: string}
`, `
        object_id: {type: string}
        data: {}
`} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "\t", "YAML has no tabs")
}

// Linters and generators need all of these parts.
func TestContractIsComplete(t *testing.T) {
	t.Parallel()
	text := string(contract())
	assert.Contains(t, text, "\nsecurity: []\n", "no credentials are needed")
	assert.Contains(t, text, "\n  contact:\n")
	assert.Contains(t, text, "\n  license:\n")
	tagged := regexp.MustCompile(`(?m)^      tags: \[(\w+)\]$`).FindAllStringSubmatch(text, -1)
	assert.Len(t, tagged, len(Operations()))
	for _, op := range Operations() {
		assert.Equal(t, 1, strings.Count(text, "\n      operationId: "+op.ID+"\n"), op.ID)
		assert.True(t, strings.HasSuffix(op.Summary, "."), op.ID)
	}
	for _, ref := range regexp.MustCompile(`#/components/\w+/(\w+)`).FindAllStringSubmatch(text, -1) {
		assert.True(t, strings.Contains(text, "\n    "+ref[1]+":\n"), "%s is not a component", ref[1])
	}
	for _, tag := range tagged {
		assert.Regexp(t, `(?m)^  - name: `+tag[1]+`\n    description: ".+\."$`, text, "description of the tag %s", tag[1])
	}
}
