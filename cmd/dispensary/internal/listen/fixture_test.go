package listen_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/listen"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// fixture is a fake platform and the receiver of a listener, in fake time.
type fixture struct {
	platform     *dispensarytest.Server
	cursor       string
	integrations []string

	mu        sync.Mutex
	reject    func(webhook.Delivery) bool // nil accepts all deliveries
	requests  []webhook.Observation
	accepted  []accepted
	responses []listen.Response
	polls     []listen.Poll
}

type accepted struct {
	key webhook.Key
	at  time.Time
}

// inBubble runs a test in fake time.
func inBubble(t *testing.T, test func(*testing.T, *fixture), options ...dispensarytest.Option) {
	t.Helper()
	cursor := filepath.Join(t.TempDir(), "cursor.json")
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{cursor: cursor}
		f.platform = dispensarytest.New(t, append([]dispensarytest.Option{
			dispensarytest.WithInMemory(), dispensarytest.WithBehavior(behavior.DeliveryConditionsOff),
		}, options...)...)
		f.integrations = []string{f.integrationOf(t, model.User{})}
		f.receive(t)
		test(t, f)
	})
}

func (f *fixture) integrationOf(t *testing.T, user model.User) string {
	t.Helper()
	clinic, err := f.platform.Client(user).Clinic.Get(t.Context())
	require.NoError(t, err)
	return clinic.IntegrationID
}

// receive hosts a receiver with an inbox. It accepts the secrets of the listener and of the
// platform, so it can also receive webhooks.
func (f *fixture) receive(t *testing.T) {
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: func(context.Context, events.Event) error { return nil }}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = inbox.Close(context.Background()) })
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: f.platform.Site().Environment,
		Secrets:     []api.Secret{api.NewSecret(secret), api.NewSecret(f.platform.Application().WebhookSecret)},
		Challenge:   api.NewSecret(challenge),
		Inbox:       gate{f, inbox},
		Observer:    webhook.Observer{RequestEnd: f.observe},
	})
	require.NoError(t, err)
	require.NoError(t, f.platform.Host(address, handler))
}

// gate is an inbox that rejects deliveries if fixture.reject returns true.
type gate struct {
	f     *fixture
	inbox webhook.Inbox
}

var errRejected = errors.New("rejected by the test")

func (g gate) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	g.f.mu.Lock()
	reject := g.f.reject
	g.f.mu.Unlock()
	if reject != nil && reject(d) {
		return webhook.Receipt{}, errRejected
	}
	receipt, err := g.inbox.Accept(ctx, d)
	if err == nil && !receipt.Duplicate {
		// Record it before the response, because the observer may run after the next request.
		g.f.mu.Lock()
		g.f.accepted = append(g.f.accepted, accepted{d.Key, time.Now()})
		g.f.mu.Unlock()
	}
	return receipt, err
}

func (f *fixture) observe(_ context.Context, o webhook.Observation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, o)
}

// setReject sets which deliveries the receiver rejects from now on.
func (f *fixture) setReject(reject func(webhook.Delivery) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reject = reject
}

// eventIDs returns the ids of the accepted events in order.
func (f *fixture) eventIDs() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.accepted {
		ids = append(ids, a.key.EventID)
	}
	return ids
}

// count returns the number of requests to the receiver.
func (f *fixture) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fixture) forwarder(t *testing.T) *listen.Forwarder {
	t.Helper()
	forwarder, err := listen.NewForwarder(listen.ForwarderConfig{
		URL: address + "/webhooks", Secret: api.NewSecret(secret), Challenge: api.NewSecret(challenge), HTTPClient: f.platform.HTTPClient(),
	})
	require.NoError(t, err)
	return forwarder
}

// config returns the config of a listener with a new token.
func (f *fixture) config(t *testing.T) listen.Config {
	t.Helper()
	once := dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1})
	return listen.Config{
		Sources: []listen.Source{{
			Environment: f.platform.Site().Environment, Events: f.platform.Client(model.User{}, once).Events, Integrations: f.integrations,
		}},
		Forwarder: f.forwarder(t),
		Cursor:    f.cursor,
		PollEnd: func(p listen.Poll) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.polls = append(f.polls, p)
		},
		ForwardEnd: func(a listen.Response) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.responses = append(f.responses, a)
		},
	}
}

// listenFor runs a listener for d. change may be nil.
func (f *fixture) listenFor(t *testing.T, d time.Duration, change func(*listen.Config)) {
	t.Helper()
	f.start(t, change, func() { time.Sleep(d) })
}

// start runs a listener until during returns. change may be nil.
func (f *fixture) start(t *testing.T, change func(*listen.Config), during func()) {
	t.Helper()
	c := f.config(t)
	if change != nil {
		change(&c)
	}
	listener, err := listen.New(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- listener.Run(ctx) }()
	during()
	cancel()
	require.Equal(t, context.Canceled, <-ended)
}

// edit changes a patient n times, one second apart, and returns the ids of the events.
func (f *fixture) edit(t *testing.T, patient, n int) (ids []string) {
	t.Helper()
	id := f.platform.Patients.All()[patient].ID
	for range n {
		_, e, err := f.platform.Patients.Update(id, model.PatientUpdate{FirstName: new("Canary-Trillian")})
		require.NoError(t, err)
		ids = append(ids, e.ID)
		time.Sleep(time.Second)
	}
	return ids
}
