package dispensaryotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// attempt reports an attempt as an engine does, and calls the handler between its start and its end.
func attempt(t testing.TB, w webhook.Work, end webhook.Attempt) {
	t.Helper()
	w, err := w.WithDefaults()
	require.NoError(t, err)
	ctx := w.Observer.AttemptStart(context.Background(), webhook.Attempt{Delivery: end.Delivery, Number: end.Number, Stale: end.Stale})
	if !end.Stale {
		_ = w.Handle(ctx, events.Event{})
	}
	w.Observer.AttemptEnd(ctx, end)
}

// caught is a panic of a handler.
type caught struct{ error }

func (caught) Value() any    { return "Jane Doe" }
func (caught) Stack() string { return "Jane Doe" }

// Each attempt records its result and a one-word cause.
func TestAttemptRecordsResult(t *testing.T) {
	t.Parallel()
	secret := errors.New("Jane Doe")
	rejected := apikit.NewError(api.Error{StatusCode: 404}, nil, []byte("Jane Doe"), nil)
	for name, c := range map[string]struct {
		end webhook.Attempt
		why string
	}{
		"handled":     {webhook.Attempt{Number: 1, Result: webhook.ResultHandled}, ""},
		"failed":      {webhook.Attempt{Number: 1, Result: webhook.ResultFailed, Err: fmt.Errorf("Jane: %w", secret)}, "*errors.errorString"},
		"by the API":  {webhook.Attempt{Number: 1, Result: webhook.ResultFailed, Err: fmt.Errorf("Jane: %w", rejected)}, "404"},
		"reauthorize": {webhook.Attempt{Number: 1, Result: webhook.ResultFailed, Err: api.ErrReauthorize}, "reauthorize"},
		"timeout":     {webhook.Attempt{Number: 1, Result: webhook.ResultFailed, Err: context.DeadlineExceeded}, "timeout"},
		"reason":      {webhook.Attempt{Number: 1, Result: webhook.ResultFailed, Err: webhook.WithReason("no_chart", secret)}, "no_chart"},
		"panic":       {webhook.Attempt{Number: 1, Result: webhook.ResultFailed, Err: caught{secret}}, "panic"},
		"dead":        {webhook.Attempt{Number: 3, Result: webhook.ResultDead, Err: webhook.Permanent(secret)}, "*errors.errorString"},
		"abandoned":   {webhook.Attempt{Number: 3, Result: webhook.ResultDead, Err: webhook.ErrAbandoned}, "abandoned"},
		"lost":        {webhook.Attempt{Number: 1, Result: webhook.ResultLost, Err: secret}, "*errors.errorString"},
		"stale":       {webhook.Attempt{Number: 1, Result: webhook.ResultSkipped, Stale: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := record(t)
			c.end.Delivery = delivery("evt_1")
			if c.end.Result == webhook.ResultFailed {
				c.end.RetryIn = time.Second
			}
			attempt(t, r.Work(webhook.Work{Handle: succeed}), c.end)
			span := r.one(t, "process order.placed")
			assert.Equal(t, string(c.end.Result), set(span)["dispensary.attempt.result"])
			assert.Equal(t, c.why, set(span)["error.type"])
			assert.Equal(t, c.why != "", span.Status.Code == codes.Error)
			assert.Equal(t, c.end.Result == webhook.ResultFailed, set(span)["dispensary.attempt.retry_in"] != "")
			assert.Equal(t, c.end.Stale, set(span)["dispensary.attempt.stale"] == "true")
			assert.Equal(t, string(c.end.Result), r.points(t, "messaging.process.duration")[0].attributes["dispensary.attempt.result"])
			dead := r.points(t, "dispensary.inbox.dead_letters")
			assert.Equal(t, c.end.Result == webhook.ResultDead, len(dead) == 1)
			assert.Equal(t, c.end.Number == 1, len(r.points(t, "dispensary.inbox.wait")) == 1, "the wait must be recorded once")
			assert.NotContains(t, r.dump(t), "Jane")
		})
	}
}

// An event accepted by another process, or too long ago, has no link.
func TestUnknownEventHasNoLink(t *testing.T) {
	t.Parallel()
	r := record(t)
	inbox := r.inbox(inboxFunc(func(context.Context, webhook.Delivery) (webhook.Receipt, error) { return webhook.Receipt{}, nil }))
	accept := func(id string) {
		_, err := inbox.Accept(t.Context(), delivery(id))
		require.NoError(t, err)
	}
	work := r.Work(webhook.Work{Handle: succeed})
	linked := func(id string) bool {
		r.spans.Reset()
		attempt(t, work, webhook.Attempt{Delivery: delivery(id), Number: 1, Result: webhook.ResultHandled})
		return len(r.one(t, "process order.placed").Links) == 1
	}
	accept("first")
	assert.True(t, linked("first"))
	assert.False(t, linked("of another process"))
	for i := range 8192 { // twice maxLinks
		accept(fmt.Sprint("later ", i))
	}
	assert.False(t, linked("first"))
	assert.True(t, linked("later 4096"))
}

// An attempt links to the first delivery that was stored, not to a failed one.
func TestAttemptLinksToStoredDelivery(t *testing.T) {
	t.Parallel()
	r := record(t)
	var problem error
	inbox := r.inbox(inboxFunc(func(context.Context, webhook.Delivery) (webhook.Receipt, error) { return webhook.Receipt{}, problem }))
	for _, problem = range []error{webhook.ErrInboxFull, nil, nil} { // the last one is a duplicate
		_, err := inbox.Accept(t.Context(), delivery("evt_1"))
		assert.Equal(t, problem, err)
	}
	attempt(t, r.Work(webhook.Work{Handle: succeed}), webhook.Attempt{Delivery: delivery("evt_1"), Number: 1, Result: webhook.ResultHandled})
	links := r.one(t, "process order.placed").Links
	require.Len(t, links, 1)
	assert.Equal(t, r.ended("accept order.placed")[1].SpanContext.SpanID(), links[0].SpanContext.SpanID())
}

// The program's own hooks run, and the attempt uses the context of AttemptStart.
func TestWorkKeepsCallersHooks(t *testing.T) {
	t.Parallel()
	type key struct{}
	var observed []any
	r := record(t)
	attempt(t, r.Work(webhook.Work{
		Handle: func(ctx context.Context, _ events.Event) error {
			observed = append(observed, ctx.Value(key{}))
			return nil
		},
		Observer: webhook.Observer{
			AttemptStart: func(ctx context.Context, _ webhook.Attempt) context.Context {
				return context.WithValue(ctx, key{}, "own")
			},
			AttemptEnd: func(ctx context.Context, _ webhook.Attempt) {
				observed = append(observed, ctx.Value(key{}))
				panic("in the program's hook")
			},
		},
	}), webhook.Attempt{Delivery: delivery("evt_1"), Number: 1, Result: webhook.ResultHandled})
	assert.Equal(t, []any{"own", "own"}, observed)
	r.one(t, "process order.placed")
}

func TestReconcileCountsMissedEvents(t *testing.T) {
	t.Parallel()
	r := record(t)
	var own []error
	config := r.Reconcile(reconcile.Config{Environment: delivery("").Key.Environment, Observer: reconcile.Observer{
		RunEnd: func(_ context.Context, _ reconcile.Report, err error) { own = append(own, err) },
	}})
	rejected := errors.New("Jane Doe")
	end := func(report reconcile.Report, err error) { config.Observer.RunEnd(t.Context(), report, err) }
	missed := []webhook.Key{{EventID: "evt_1"}, {EventID: "evt_2"}}
	end(reconcile.Report{Skipped: true}, nil)
	end(reconcile.Report{First: true, Recovered: missed}, nil)
	end(reconcile.Report{Duration: time.Second}, nil)
	end(reconcile.Report{Name: "us/sandbox/clinic-1", Recovered: missed, Gaps: []reconcile.Gap{{EventID: "evt_3"}, {EventID: "evt_4", Err: rejected}}}, rejected)
	assert.Equal(t, []error{nil, nil, nil, rejected}, own)

	us := func(more ...string) map[string]string {
		all := map[string]string{"dispensary.region": "us", "dispensary.stage": "sandbox"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	assert.ElementsMatch(t, []point{
		{us(), 2}, {us("error.type", "*errors.errorString"), 1},
	}, r.points(t, "dispensary.reconcile.run.duration"))
	assert.ElementsMatch(t, []point{
		{us("dispensary.reconcile.result", "recovered"), 2}, {us("dispensary.reconcile.result", "lost"), 1},
	}, r.points(t, "dispensary.reconcile.events"))
	dumped := r.dump(t)
	for _, secret := range []string{"Jane", "clinic-1", "evt_"} {
		assert.NotContains(t, dumped, secret)
	}
}
