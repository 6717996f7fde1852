package main

import (
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// fixture is the program with a fake platform.
type fixture struct {
	*testing.T
	platform *dispensarytest.Server
	app      *app
	home     string // URL of the program
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	home := "http://" + listener.Addr().String()
	platform := dispensarytest.New(t,
		dispensarytest.WithRedirectURI(home+"/dispensary/callback"), dispensarytest.WithWebhook(home+"/webhooks/us-sandbox"),
		// The platform sends webhooks although no user has connected yet.
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart))
	config, err := integration.Load(append(platform.Variables(),
		"DISPENSARY_STORE=memory:", "DISPENSARY_INBOX=memory:", "DISPENSARY_STATE_KEYS="+rand.Text()+rand.Text()))
	require.NoError(t, err)
	a, err := open(t.Context(), config)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- a.serve(t.Context(), listener) }() // the context ends with the test
	t.Cleanup(func() { assert.NoError(t, <-ended) })
	return &fixture{t, platform, a, home}
}

// connect connects the user in a browser, as a practitioner of the platform.
func (f *fixture) connect() (page string) {
	f.Helper()
	return f.read(f.platform.Browser(f.platform.Users()[0]).Authorize(f.Context(), f.home+"/dispensary/connect?return_to=/"))
}

// order lets a patient order, and returns the number of the order.
func (f *fixture) order() (number string) {
	f.Helper()
	order, _, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(f, err)
	return order.Number
}

// read returns a page.
func (f *fixture) read(response *http.Response, err error) (page string) {
	f.Helper()
	require.NoError(f, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(f, err)
	require.NoError(f, response.Body.Close())
	require.Equal(f, http.StatusOK, response.StatusCode)
	return string(body)
}

// waitFor waits until a page contains text.
func (f *fixture) waitFor(path, text string) {
	f.Helper()
	require.Eventually(f, func() bool {
		return strings.Contains(f.read(http.Get(f.home+path)), text)
	}, time.Minute, 10*time.Millisecond, text)
}

func TestUserConnects(t *testing.T) {
	f := newFixture(t)
	assert.Contains(t, f.read(http.Get(f.home+"/")), "Connect the dispensary")
	assert.Contains(t, f.connect(), "Connected with "+f.platform.Clinics.All()[0].Name)
}

func TestWebhookStoresOrder(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.waitFor("/", f.order())
}

func TestReconcilerRecoversLostEvent(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost}) // lose the webhook
	number := f.order()
	f.app.dispensary.Reconcilers[dispensary.USSandbox].Trigger() // the program does so every hour
	f.waitFor("/", number)
}

func TestOperationsRejectOtherHosts(t *testing.T) {
	f := newFixture(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.home+"/operations/", nil)
	require.NoError(t, err)
	request.Host = "evil.example"
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusMisdirectedRequest, response.StatusCode)
}

func TestReplayStoresOrderOfDeadLetter(t *testing.T) {
	f := newFixture(t)
	number := f.order() // the event fails without a connected user
	f.waitFor("/operations/events?state=dead", "order.placed")
	f.connect()
	dead := engine.Filter{States: []engine.State{engine.StateDead}}
	counts, err := f.app.dispensary.Inbox.Count(t.Context(), dead, 0)
	require.NoError(t, err)
	dead.Until = counts.Until
	replayed, err := f.app.dispensary.Inbox.Replay(t.Context(), dead) // or with the button on the page
	require.NoError(t, err)
	assert.Equal(t, 1, replayed)
	f.waitFor("/", number)
}

func TestLoginRejectsProduction(t *testing.T) {
	t.Parallel()
	production := integration.Application{Site: dispensary.USProduction.At("https://platform.example/api")}
	_, err := open(t.Context(), integration.Config{Applications: []integration.Application{production}})
	require.ErrorContains(t, err, "login.go lets everyone in")
}
