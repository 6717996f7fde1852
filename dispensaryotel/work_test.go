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
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// attempt performs one attempt as an engine does.
func attempt(t *testing.T, w webhook.Work, task inboxkit.Task, noted error) {
	t.Helper()
	worker, err := inboxkit.NewWorker(w)
	require.NoError(t, err)
	assert.Equal(t, noted, worker.Do(t.Context(), task, func(webhook.Attempt) error { return noted }))
}

// Each attempt records its result and a one-word cause.
func TestAttemptRecordsResult(t *testing.T) {
	t.Parallel()
	failing := func(err error) webhook.HandlerFunc {
		return func(context.Context, events.Event) error { return err }
	}
	secret := errors.New("Jane Doe")
	answer := apikit.NewError(api.Error{StatusCode: 404}, nil, []byte("Jane Doe"), nil)
	for name, c := range map[string]struct {
		handle  webhook.HandlerFunc
		task    inboxkit.Task
		noted   error
		result  string
		why     string
		isError bool
	}{
		"handled":      {succeed, inboxkit.Task{Attempt: 1}, nil, "handled", "", false},
		"failed":       {failing(fmt.Errorf("Jane: %w", secret)), inboxkit.Task{Attempt: 1}, nil, "failed", "*errors.errorString", true},
		"by the API":   {failing(fmt.Errorf("Jane: %w", answer)), inboxkit.Task{Attempt: 1}, nil, "failed", "404", true},
		"reauthorize":  {failing(api.ErrReauthorize), inboxkit.Task{Attempt: 1}, nil, "failed", "reauthorize", true},
		"timeout":      {failing(context.DeadlineExceeded), inboxkit.Task{Attempt: 1}, nil, "failed", "timeout", true},
		"last attempt": {failing(secret), inboxkit.Task{Attempt: 3}, nil, "dead", "*errors.errorString", true},
		"reason":       {failing(webhook.WithReason("no_chart", secret)), inboxkit.Task{Attempt: 1}, nil, "failed", "no_chart", true},
		"permanent":    {failing(webhook.Permanent(secret)), inboxkit.Task{Attempt: 1}, nil, "dead", "*errors.errorString", true},
		"panic":        {func(context.Context, events.Event) error { panic("Jane Doe") }, inboxkit.Task{Attempt: 1}, nil, "failed", "panic", true},
		"abandoned":    {succeed, inboxkit.Task{Attempt: 3, Err: webhook.ErrAbandoned}, nil, "dead", "abandoned", true},
		"lost":         {succeed, inboxkit.Task{Attempt: 1}, secret, "lost", "*errors.errorString", true},
		"stale":        {succeed, inboxkit.Task{Attempt: 1, Object: "order/1", Newest: time.Now()}, nil, "skipped", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := record(t)
			c.task.Delivery = delivery("evt_1")
			attempt(t, r.Work(webhook.Work{
				Handle: c.handle, Retry: webhook.RetryPolicy{MaxAttempts: 3}, Order: webhook.ByObject, Stale: webhook.StalePolicySkip,
			}), c.task, c.noted)
			span := r.one(t, "process order.placed")
			assert.Equal(t, c.result, set(span)["dispensary.attempt.result"])
			assert.Equal(t, c.why, set(span)["error.type"])
			assert.Equal(t, c.isError, span.Status.Code == codes.Error)
			assert.Equal(t, c.result == "failed", set(span)["dispensary.attempt.retry_in"] != "")
			assert.Equal(t, c.result == "skipped", set(span)["dispensary.attempt.stale"] == "true")
			assert.Equal(t, c.result, r.points(t, "messaging.process.duration")[0].attributes["dispensary.attempt.result"])
			dead := r.points(t, "dispensary.inbox.dead_letters")
			assert.Equal(t, c.result == "dead", len(dead) == 1)
			assert.Equal(t, c.task.Attempt == 1, len(r.points(t, "dispensary.inbox.wait")) == 1, "the wait must be recorded once")
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
		attempt(t, work, inboxkit.Task{Delivery: delivery(id), Attempt: 1}, nil)
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
	attempt(t, r.Work(webhook.Work{Handle: succeed}), inboxkit.Task{Delivery: delivery("evt_1"), Attempt: 1}, nil)
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
	}), inboxkit.Task{Delivery: delivery("evt_1"), Attempt: 1}, nil)
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
	refused := errors.New("Jane Doe")
	end := func(report reconcile.Report, err error) { config.Observer.RunEnd(t.Context(), report, err) }
	missed := []webhook.Key{{EventID: "evt_1"}, {EventID: "evt_2"}}
	end(reconcile.Report{Skipped: true}, nil)
	end(reconcile.Report{First: true, Recovered: missed}, nil)
	end(reconcile.Report{Duration: time.Second}, nil)
	end(reconcile.Report{Name: "us/sandbox/clinic-1", Recovered: missed, Gaps: []reconcile.Gap{{EventID: "evt_3"}, {EventID: "evt_4", Err: refused}}}, refused)
	assert.Equal(t, []error{nil, nil, nil, refused}, own)

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
