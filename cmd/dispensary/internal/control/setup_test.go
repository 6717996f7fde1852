package control

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
	answer := map[string]any{}
	require.NoError(r.t, json.Unmarshal(text, &answer), "%s", text)
	return response.StatusCode, answer
}

// ok requires status 200 and returns the value at a path of keys.
func (r *fixture) ok(method, path, body string, keys ...string) any {
	r.t.Helper()
	status, answer := r.call(method, path, body)
	require.Equal(r.t, http.StatusOK, status, "%v", answer)
	var at any = answer
	for _, key := range keys {
		object, isObject := at.(map[string]any)
		require.True(r.t, isObject, "%v", answer)
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

// refused requires an error with this status and text.
func (r *fixture) refused(method, path, body string, status int, text string) {
	r.t.Helper()
	got, answer := r.call(method, path, body)
	require.Equal(r.t, status, got, "%v", answer)
	require.Contains(r.t, answer["error"], text)
}

func (r *fixture) patient() string { return r.fake.Patients.All()[0].ID }

func frozen() dispensarytest.Option {
	return dispensarytest.WithClock(dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)))
}
