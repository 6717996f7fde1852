package integration_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/integration"
	_ "github.com/dispensary-go/dispensary/integration/mysql"
	_ "github.com/dispensary-go/dispensary/integration/postgres"
	_ "github.com/dispensary-go/dispensary/integration/sqlite"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/webhook"
)

// Keys from openssl rand -base64 32.
const (
	sealKeys = "2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	stateKey = "9zfbHYIzCRb7Pzn6TXq+ZcRG9XkbbyPZc6fyGTXFxEk="
)

var (
	us     = dispensary.USSandbox
	canada = dispensary.CanadaSandbox
)

// fixture is a health record with users in two countries, and a fake platform for each country.
type fixture struct {
	server    *httptest.Server // of the health record
	routes    atomic.Value     // http.Handler
	platforms map[dispensary.Environment]*dispensarytest.Server
	variables map[string]string
	user      atomic.Value // user signed in to the health record
	health    atomic.Pointer[health.Handler]
}

// newFixture returns a health record with the variables of a configuration, except for store and
// inbox.
func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{platforms: map[dispensary.Environment]*dispensarytest.Server{}, variables: map[string]string{
		"DISPENSARY_SEAL_KEYS": sealKeys, "DISPENSARY_STATE_KEYS": stateKey,
	}}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if routes, ok := f.routes.Load().(http.Handler); ok {
			routes.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(f.server.Close)
	for _, environment := range []dispensary.Environment{us, canada} {
		callback := f.server.URL + "/dispensary/callback"
		platform := dispensarytest.New(t, dispensarytest.WithEnvironment(environment), dispensarytest.WithRedirectURI(callback),
			dispensarytest.WithBehavior(behavior.DeliveryConditionsOff), dispensarytest.WithTuning(dispensarytest.Tuning{DeliveryTimeout: time.Minute}))
		_, err := platform.Clinics.ActivateKey(platform.ClinicKey())
		require.NoError(t, err)
		f.platforms[environment] = platform
		for _, variable := range platform.Variables() {
			name, value, _ := strings.Cut(variable, "=")
			f.variables[name] = value
		}
	}
	return f
}

// newFileFixture returns a health record with store and inbox in one file.
func newFileFixture(t *testing.T) (f *fixture, path string) {
	t.Helper()
	path = file(t)
	return newFixture(t).kept("sqlite:"+path, "sqlite:"+path), path
}

// kept sets store and inbox.
func (f *fixture) kept(store, inbox string) *fixture {
	f.variables["DISPENSARY_STORE"], f.variables["DISPENSARY_INBOX"] = store, inbox
	return f
}

func (f *fixture) config(t testing.TB) integration.Config {
	t.Helper()
	config, err := load(f.variables)
	require.NoError(t, err)
	return config
}

// setup returns the Setup of most tests.
func (f *fixture) setup(handle webhook.HandlerFunc) integration.Setup {
	return integration.Setup{
		Work:     webhook.Work{Handle: handle},
		Webhooks: webhook.HandlerConfig{AcceptTimeout: time.Minute},
		Connect:  connect.Config{User: func(*http.Request) (string, error) { return f.user.Load().(string), nil }},
		Accounts: accounts.Config{Locate: locate},
	}
}

// locate returns the environment in the prefix of a user ID.
func locate(_ context.Context, user string) (dispensary.Environment, error) {
	country, _, _ := strings.Cut(user, ":")
	return api.ParseEnvironment(country + "/sandbox")
}

// open opens and mounts an integration, and shuts it down at the end of the test.
func (f *fixture) open(t testing.TB, setup integration.Setup) *integration.Integration {
	t.Helper()
	i, err := integration.Open(t.Context(), f.config(t), setup)
	require.NoError(t, err)
	t.Cleanup(func() { _ = i.Shutdown(context.Background()) })
	f.health.Store(i.Health)
	mux := http.NewServeMux()
	i.Mount(mux)
	f.routes.Store(http.Handler(mux))
	return i
}

// connect connects a user to the account of a practitioner in the browser.
func (f *fixture) connect(t *testing.T, environment dispensary.Environment, user string) {
	t.Helper()
	f.user.Store(user)
	platform := f.platforms[environment]
	for _, person := range platform.Users() {
		if person.Type == model.UserPractitioner {
			response, err := platform.Browser(person).Authorize(t.Context(), f.server.URL+"/dispensary/connect?return_to=/healthz")
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, "{\"status\":\"ok\"}\n", string(body))
			return
		}
	}
	require.Fail(t, "no practitioner")
}

// clinic returns the name of the checkpoint of an environment's clinic.
func (f *fixture) clinic(environment dispensary.Environment) string {
	return environment.String() + "/" + f.platforms[environment].Clinics.All()[0].ID
}

// order places an order of a patient.
func (f *fixture) order(t *testing.T, environment dispensary.Environment) (number string, event model.Event) {
	t.Helper()
	platform := f.platforms[environment]
	order, event, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	return order.Number, event
}

// ready runs the checks and returns the response to a health check and its statuses.
func (f *fixture) ready(t *testing.T, path string) (int, map[string]string) {
	t.Helper()
	f.health.Load().Check(t.Context())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.server.URL+path, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Checks map[string]struct{ Status string }
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&body))
	found := map[string]string{}
	for name, check := range body.Checks {
		found[name] = check.Status
	}
	return response.StatusCode, found
}

// file returns the path of a database until the end of the test.
func file(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "dispensary.db")
}
