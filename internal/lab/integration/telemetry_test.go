package integration_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// telemetry counts observations by part. It observes an inbox with wrap.
type telemetry struct {
	wrap func(webhook.Inbox) webhook.Inbox // nil changes nothing

	mu   sync.Mutex
	seen map[string]int
}

func newTelemetry() *telemetry { return &telemetry{seen: map[string]int{}} }

func (r *telemetry) see(part string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[part]++
}

func (r *telemetry) count(part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[part]
}

func (r *telemetry) parts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.seen))
}

func (r *telemetry) Calls() observe.Observer {
	return observe.Observer{CallEnd: func(_ context.Context, c observe.CallResult) { r.see(c.Operation) }}
}

func (r *telemetry) Tokens() tokens.Observer {
	return tokens.Observer{Connected: func(context.Context, tokens.Authorization) { r.see("connected") }}
}

func (r *telemetry) Work(w webhook.Work) webhook.Work {
	w.Observer.AttemptEnd = both(w.Observer.AttemptEnd, func(a webhook.Attempt) { r.see("attempt " + string(a.Result)) })
	return w
}

func (r *telemetry) Webhook(c webhook.HandlerConfig) webhook.HandlerConfig {
	if c.Inbox != nil && r.wrap != nil {
		c.Inbox = r.wrap(c.Inbox)
	}
	c.Observer.RequestEnd = both(c.Observer.RequestEnd, func(o webhook.Observation) { r.see("request " + string(o.Outcome)) })
	return c
}

func (r *telemetry) Reconcile(c reconcile.Config) reconcile.Config {
	own := c.Observer.RunEnd
	c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
		own(ctx, report, err)
		r.see("run in " + c.Environment.String())
	}
	return c
}

func (r *telemetry) WatchInbox(name string, _ engine.Engine) (func() error, error) {
	r.see("watched " + name)
	return func() error { r.see("unwatched " + name); return nil }, nil
}

func both[T any](own func(context.Context, T), then func(T)) func(context.Context, T) {
	return func(ctx context.Context, value T) {
		if own != nil {
			own(ctx, value)
		}
		then(value)
	}
}

// The program's own observers still work. Each one reports its part as "own …".
func TestTelemetryObservesAllParts(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	seen := newTelemetry()
	setup := f.setup(succeed)
	setup.Telemetry = seen
	setup.Work.Observer.AttemptEnd = func(context.Context, webhook.Attempt) { seen.see("own attempt") }
	setup.Webhooks.Observer.RequestEnd = func(context.Context, webhook.Observation) { seen.see("own request") }
	setup.Reconcile.Observer.RunEnd = func(context.Context, reconcile.Report, error) { seen.see("own run") }
	setup.Accounts.Tokens.Observers = []tokens.Observer{{Connected: func(context.Context, tokens.Authorization) { seen.see("own connected") }}}
	own := observe.Observer{CallEnd: func(_ context.Context, c observe.CallResult) { seen.see("own " + c.Operation) }}
	setup.OAuth.Observers = []observe.Observer{own}
	setup.Accounts.Options = func(dispensary.Environment) []dispensary.Option {
		return []dispensary.Option{dispensary.WithObserver(own)}
	}
	i := f.open(t, setup)
	f.connect(t, us, "us:dr-1")
	client, err := i.Accounts.Client(t.Context(), "us:dr-1")
	require.NoError(t, err)
	_, err = client.Clinic.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, f.platforms[us].Webhooks.Register(f.server.URL+"/webhooks/us-sandbox", "order.placed"))
	_, event := f.order(t, us)
	require.NoError(t, f.platforms[us].Webhooks.WaitDelivered(t.Context(), event.ID))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/webhooks/other", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	go func() { _ = i.Run(t.Context()) }() // now, because an earlier run could find the event before its webhook

	want := []string{
		"oauth.token", "clinic.get", "connected", "request accepted", "request rejected", "attempt handled", "run in us/sandbox", "watched us-sandbox ca-sandbox",
		"own oauth.token", "own clinic.get", "own connected", "own request", "own attempt", "own run",
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Subset(c, seen.parts(), want) }, time.Minute, time.Millisecond)
	require.NoError(t, i.Shutdown(context.WithoutCancel(t.Context())))
	require.NoError(t, i.Shutdown(context.WithoutCancel(t.Context())))
	assert.Equal(t, 1, seen.count("unwatched us-sandbox ca-sandbox"))
}

type rejecting struct{ *telemetry }

var errRejected = errors.New("refused")

func (rejecting) WatchInbox(string, engine.Engine) (func() error, error) { return nil, errRejected }

func TestOpenReportsTelemetryError(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	setup := f.setup(succeed)
	setup.Telemetry = rejecting{newTelemetry()}
	_, err := integration.Open(t.Context(), f.config(t), setup)
	require.ErrorIs(t, err, errRejected)
	assert.ErrorContains(t, err, "integration: telemetry: ")
}
