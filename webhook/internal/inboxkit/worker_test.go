package inboxkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

const marked = "Zaphod-Marked" // stands for patient data

var (
	orderKey = webhook.Key{Environment: api.USSandbox, EventID: "evt_1", IntegrationID: "in_1"}
	errDown  = errors.New("the database is down")
)

var (
	sandbox = api.USSandbox
	now     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// delivery returns an accepted event with the given id.
func delivery(id string) webhook.Delivery {
	return webhook.Delivery{
		Key:        webhook.Key{Environment: sandbox, EventID: id, IntegrationID: "in_1"},
		Type:       events.TypeOrderPlaced,
		ReceivedAt: time.Now(),
		Body:       []byte(`{"event":{"id":"` + id + `","type":"order.placed","data":{"order":{"id":"or_1"}}}}`),
	}
}

func succeed(context.Context, events.Event) error { return nil }
func fail(context.Context, events.Event) error    { return errDown }

// task is an attempt at an order.placed event.
func task(attempt int) inboxkit.Task {
	d := delivery("evt_1")
	d.CreatedAt = now
	return inboxkit.Task{Delivery: d, Attempt: attempt}
}

// do makes an attempt. It returns the attempt as recorded and as observed.
func do(t *testing.T, ctx context.Context, w webhook.Work, task inboxkit.Task, recordErr error) (told, observed webhook.Attempt) {
	t.Helper()
	calls := 0
	w.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { observed = a }
	worker, err := inboxkit.NewWorker(w)
	require.NoError(t, err)
	err = worker.Do(ctx, task, func(a webhook.Attempt) error {
		assert.Empty(t, observed.Result, "observed before it was recorded")
		calls++
		told = a
		return recordErr
	})
	assert.Equal(t, 1, calls)
	assert.Equal(t, recordErr, err)
	return told, observed
}

func TestWorkerDecides(t *testing.T) {
	t.Parallel()
	badData := func(context.Context, events.Event) error {
		return fmt.Errorf("order: %w", &events.DataError{Err: events.ErrBadData})
	}
	permanent := func(context.Context, events.Event) error { return fmt.Errorf("order: %w", webhook.Permanent(errDown)) }
	panics := func(context.Context, events.Event) error { panic(marked) }
	ends := func(context.Context, events.Event) error { runtime.Goexit(); return nil }
	hangs := func(ctx context.Context, _ events.Event) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		handle  webhook.HandlerFunc
		attempt int
		err     error // of the task
		want    webhook.Result
		wantErr error
	}{
		"success":      {succeed, 1, nil, webhook.ResultHandled, nil},
		"failure":      {fail, 2, nil, webhook.ResultFailed, errDown},
		"last failure": {fail, 3, nil, webhook.ResultDead, errDown},
		"beyond":       {fail, 7, nil, webhook.ResultDead, errDown},
		"permanent":    {permanent, 1, nil, webhook.ResultDead, errDown},
		"bad data":     {badData, 1, nil, webhook.ResultDead, events.ErrBadData},
		"panic":        {panics, 1, nil, webhook.ResultFailed, safecall.ErrPanic},
		"goexit":       {ends, 1, nil, webhook.ResultFailed, safecall.ErrPanic},
		"timeout":      {hangs, 1, nil, webhook.ResultFailed, context.DeadlineExceeded},
		"no body":      {succeed, 1, webhook.ErrBodyLost, webhook.ResultFailed, webhook.ErrBodyLost},
		"abandoned":    {succeed, 3, webhook.ErrAbandoned, webhook.ResultDead, webhook.ErrAbandoned},
	} {
		task := task(c.attempt)
		task.Err = c.err
		told, observed := do(t, t.Context(), webhook.Work{Handle: c.handle, HandlerTimeout: 10 * time.Millisecond, Retry: webhook.RetryPolicy{MaxAttempts: 3}}, task, nil)
		assert.Equal(t, c.want, told.Result, name)
		require.ErrorIs(t, told.Err, c.wantErr, name)
		assert.NotContains(t, told.Reason(), marked)
		assert.Equal(t, c.want == webhook.ResultFailed, told.RetryIn > 0, name)
		assert.Equal(t, c.attempt, told.Number)
		assert.Equal(t, told, observed)
		assert.Equal(t, told.Err == nil, told.Reason() == "")
	}
}

func TestWorkerReturnsStoppedAttempt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	told, _ := do(t, ctx, webhook.Work{Handle: func(ctx context.Context, _ events.Event) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}, task(25), nil)
	assert.Equal(t, webhook.ResultReturned, told.Result)
	told, _ = do(t, ctx, webhook.Work{Handle: succeed}, task(1), nil)
	assert.Equal(t, webhook.ResultHandled, told.Result, "a late success counts")
}

// An overdue handler is reported once, and counted until it returns.
func TestWorkerReportsOverdueHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var overdue []webhook.Attempt
		release := make(chan struct{})
		worker, err := inboxkit.NewWorker(webhook.Work{
			Handle:         func(context.Context, events.Event) error { <-release; return nil },
			HandlerTimeout: time.Minute,
			Logger:         slog.New(slog.NewTextHandler(&log, nil)),
			Observer: webhook.Observer{
				AttemptStart: func(ctx context.Context, _ webhook.Attempt) context.Context { return begun(ctx) },
				AttemptOverdue: func(ctx context.Context, a webhook.Attempt) {
					assert.True(t, hasBegun(ctx))
					overdue = append(overdue, a)
				},
			},
		})
		require.NoError(t, err)
		var result webhook.Result
		go func() {
			_ = worker.Do(t.Context(), task(3), func(a webhook.Attempt) error { result = a.Result; return nil })
		}()
		time.Sleep(time.Minute + 4*time.Second)
		assert.Zero(t, worker.Overdue(), "the handler may still stop in time")
		time.Sleep(time.Hour)
		synctest.Wait() // orders the observer before the reads that follow
		assert.Equal(t, 1, worker.Overdue())
		require.Len(t, overdue, 1)
		assert.Equal(t, 3, overdue[0].Number)
		assert.Equal(t, time.Minute+5*time.Second, overdue[0].Duration)
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"))
		assert.Contains(t, log.String(), "event_id=evt_1")
		close(release)
		synctest.Wait()
		assert.Zero(t, worker.Overdue())
		assert.Equal(t, webhook.ResultHandled, result)
	})
}

func TestWorkerIgnoresHandlerStoppedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told, _ := do(t, t.Context(), webhook.Work{
			Handle: func(ctx context.Context, _ events.Event) error { <-ctx.Done(); return ctx.Err() },
			Observer: webhook.Observer{AttemptOverdue: func(context.Context, webhook.Attempt) {
				assert.Fail(t, "the handler stopped at its timeout")
			}},
		}, task(1), nil)
		assert.Equal(t, webhook.ResultFailed, told.Result)
		time.Sleep(time.Hour)
	})
}

func TestWorkerReportsLostOutcomes(t *testing.T) {
	t.Parallel()
	full := errors.New("disk is full")
	_, observed := do(t, t.Context(), webhook.Work{Handle: fail}, task(1), full)
	assert.Equal(t, webhook.ResultLost, observed.Result)
	assert.Equal(t, full, observed.Err)
	assert.Zero(t, observed.RetryIn)
}

func TestWorkerGuardsAgainstStaleEvents(t *testing.T) {
	t.Parallel()
	stale := task(1)
	stale.Object, stale.Newest = "order-1", now.Add(time.Second)
	var seen webhook.Handling
	look := func(ctx context.Context, e events.Event) error {
		seen = webhook.HandlingFrom(ctx)
		assert.Equal(t, "in_1", e.IntegrationID, "from the key")
		assert.Equal(t, api.PriorityEvent, apikit.PriorityOf(ctx), "priority of the handler's requests")
		return nil
	}
	for policy, want := range map[webhook.StalePolicy]webhook.Result{
		webhook.StalePolicyIgnore: webhook.ResultHandled, webhook.StalePolicyReport: webhook.ResultHandled, webhook.StalePolicySkip: webhook.ResultSkipped,
	} {
		seen = webhook.Handling{}
		told, _ := do(t, t.Context(), webhook.Work{Handle: look, Order: webhook.ByObject, Stale: policy}, stale, nil)
		assert.Equal(t, want, told.Result)
		assert.Equal(t, policy != webhook.StalePolicyIgnore, told.Stale)
		if policy == webhook.StalePolicySkip {
			assert.Zero(t, seen)
		} else {
			assert.Equal(t, webhook.Handling{Key: stale.Key, Attempt: 1, Stale: told.Stale}, seen)
		}
	}
	assert.Zero(t, webhook.HandlingFrom(t.Context()))
}

func TestWorkerReturnsOrderingKeys(t *testing.T) {
	t.Parallel()
	d := task(1).Delivery
	ageless, unreadable := d, d
	ageless.CreatedAt, unreadable.Body = time.Time{}, nil
	order := webhook.NewOrderingKey(d, "order", "or_1")
	for _, c := range []struct {
		by             func(webhook.Delivery, events.Event) webhook.OrderingKey
		stale          webhook.StalePolicy
		delivery       webhook.Delivery
		subject, mount webhook.OrderingKey
	}{
		{nil, webhook.StalePolicyIgnore, d, "", ""},
		{webhook.ByObject, webhook.StalePolicyIgnore, d, order, ""},
		{webhook.ByObject, webhook.StalePolicyReport, d, order, order},
		{webhook.ByObject, webhook.StalePolicyReport, ageless, order, ""},
		{webhook.ByObject, webhook.StalePolicyReport, unreadable, "", ""},
	} {
		w, err := inboxkit.NewWorker(webhook.Work{Handle: succeed, Order: c.by, Stale: c.stale})
		require.NoError(t, err)
		subject, object := w.OrderingKeys(c.delivery)
		assert.Equal(t, c.subject, subject)
		assert.Equal(t, c.mount, object)
	}
}

func TestWorkerRejectsInvalidWork(t *testing.T) {
	t.Parallel()
	for _, w := range []webhook.Work{
		{}, {Handle: succeed, Workers: -1}, {Handle: succeed, HandlerTimeout: -1}, {Handle: succeed, Stale: 7},
		{Handle: succeed, Stale: webhook.StalePolicySkip}, {Handle: succeed, Retry: webhook.RetryPolicy{MaxAttempts: -1}},
	} {
		_, err := inboxkit.NewWorker(w)
		require.Error(t, err)
	}
	w, err := inboxkit.NewWorker(webhook.Work{Handle: succeed})
	require.NoError(t, err)
	assert.Equal(t, webhook.RetryPolicy{MaxAttempts: 25, BackOff: time.Second, MaxBackOff: time.Hour}, w.Work().Retry)
	assert.Equal(t, "inboxkit.Worker", fmt.Sprintf("%+v", w))
}

type begunKey struct{}

func begun(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

func hasBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) == true }

// The handler and AttemptEnd get the context of AttemptStart. AttemptEnd gets it even if the
// handler is not called.
func TestAttemptUsesContextOfAttemptStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		handled bool
	}{"handled": {nil, true}, "unreadable": {webhook.ErrBodyLost, false}} {
		var handler, observer bool
		var started webhook.Attempt
		worker, err := inboxkit.NewWorker(webhook.Work{
			Handle: func(ctx context.Context, _ events.Event) error { handler = hasBegun(ctx); return nil },
			Observer: webhook.Observer{
				AttemptStart: func(ctx context.Context, a webhook.Attempt) context.Context { started = a; return begun(ctx) },
				AttemptEnd:   func(ctx context.Context, _ webhook.Attempt) { observer = hasBegun(ctx) },
			},
		})
		require.NoError(t, err)
		task := task(2)
		task.Err = c.err
		require.NoError(t, worker.Do(t.Context(), task, func(webhook.Attempt) error { return nil }))
		assert.Equal(t, c.handled, handler, name)
		assert.True(t, observer, name)
		assert.Equal(t, 2, started.Number, name)
		assert.Equal(t, task.Key, started.Key, name)
	}
}

type brokenLog struct{ slog.Handler }

func (brokenLog) Handle(context.Context, slog.Record) error { panic("no disk") }

func TestWorkerSurvivesLogAndObserver(t *testing.T) {
	t.Parallel()
	worker, err := inboxkit.NewWorker(webhook.Work{
		Handle: succeed,
		Logger: slog.New(brokenLog{slog.Default().Handler()}),
		Observer: webhook.Observer{
			AttemptStart: func(context.Context, webhook.Attempt) context.Context { panic(marked) },
			AttemptEnd:   func(context.Context, webhook.Attempt) { panic(marked) },
		},
	})
	require.NoError(t, err)
	var result webhook.Result
	require.NoError(t, worker.Do(t.Context(), task(1), func(a webhook.Attempt) error { result = a.Result; return nil }))
	assert.Equal(t, webhook.ResultHandled, result)
}

// The request ID is a log attribute, not a part of the reason.
func TestLogNamesFailedRequest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	do(t, t.Context(), webhook.Work{
		Handle: func(context.Context, events.Event) error {
			return fmt.Errorf("%s: %w", marked, &api.Error{Operation: "orders.get", StatusCode: 503, RequestID: "r-1"})
		},
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
	}, task(1), nil)
	assert.Contains(t, out.String(), "request_id=r-1")
	assert.NotContains(t, out.String(), "request id")
	assert.NotContains(t, out.String(), marked)
}

func TestAppendFailureKeepsLastOnes(t *testing.T) {
	t.Parallel()
	kept := inboxkit.AppendFailure(nil, webhook.Attempt{Number: 1, Err: assert.AnError}, now)
	one := kept
	for n := 2; n <= inboxkit.KeptFailures+1; n++ {
		inboxkit.AppendFailure(kept, webhook.Attempt{}, now) // shares nothing with the next one
		kept = inboxkit.AppendFailure(kept, webhook.Attempt{Number: n, Err: webhook.ErrAbandoned, Duration: time.Second}, now)
	}
	require.Len(t, kept, inboxkit.KeptFailures)
	for n, f := range kept {
		assert.Equal(t, engine.Failure{Attempt: n + 2, At: now, Duration: time.Second, Reason: webhook.ErrAbandoned.Error()}, f)
	}
	assert.Equal(t, 1, one[0].Attempt)
}
