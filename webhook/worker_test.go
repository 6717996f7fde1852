package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// task is an attempt at an order.placed event.
func task(attempt int) webhook.Task {
	d := delivery("evt_1")
	d.CreatedAt = now
	return webhook.Task{Delivery: d, Attempt: attempt}
}

// do makes an attempt and returns what the engine was told, and the observer.
func do(t *testing.T, ctx context.Context, w webhook.Work, task webhook.Task, noted error) (told, observed webhook.Attempt) {
	t.Helper()
	calls := 0
	w.Observe = func(_ context.Context, a webhook.Attempt) { observed = a }
	worker, err := webhook.NewWorker(w)
	require.NoError(t, err)
	err = worker.Do(ctx, task, func(a webhook.Attempt) error {
		assert.Empty(t, observed.Result, "observed before it was noted")
		calls++
		told = a
		return noted
	})
	assert.Equal(t, 1, calls)
	assert.Equal(t, noted, err)
	return told, observed
}

func TestWorkerJudges(t *testing.T) {
	t.Parallel()
	badData := func(context.Context, events.Event) error {
		return fmt.Errorf("order: %w", &events.DataError{Reason: events.ErrBadData})
	}
	permanent := func(context.Context, events.Event) error { return fmt.Errorf("order: %w", webhook.Permanent(errDown)) }
	for name, c := range map[string]struct {
		handle  webhook.HandlerFunc
		attempt int
		err     error
		want    webhook.Result
	}{
		"success":      {succeed, 1, nil, webhook.ResultHandled},
		"failure":      {fail, 2, nil, webhook.ResultFailed},
		"last failure": {fail, 3, nil, webhook.ResultDead},
		"beyond":       {fail, 7, nil, webhook.ResultDead},
		"permanent":    {permanent, 1, nil, webhook.ResultDead},
		"bad data":     {badData, 1, nil, webhook.ResultDead},
		"no body":      {succeed, 1, webhook.ErrBodyLost, webhook.ResultFailed},
		"abandoned":    {succeed, 3, webhook.ErrAbandoned, webhook.ResultDead},
	} {
		task := task(c.attempt)
		task.Err = c.err
		told, observed := do(t, t.Context(), webhook.Work{Handle: c.handle, Retry: webhook.RetryPolicy{MaxAttempts: 3}}, task, nil)
		assert.Equal(t, c.want, told.Result, name)
		assert.Equal(t, c.want == webhook.ResultFailed, told.RetryIn > 0, name)
		assert.Equal(t, c.attempt, told.Number)
		assert.Equal(t, told, observed)
		assert.Equal(t, told.Err == nil, told.Reason() == "")
	}
}

func TestWorkerHandsBackWhatIsStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	told, _ := do(t, ctx, webhook.Work{Handle: func(ctx context.Context, _ events.Event) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}, task(webhook.DefaultMaxAttempts), nil)
	assert.Equal(t, webhook.ResultReturned, told.Result)
	told, _ = do(t, ctx, webhook.Work{Handle: succeed}, task(1), nil)
	assert.Equal(t, webhook.ResultHandled, told.Result, "success counts, however late")
}

func TestWorkerTellsOfOutcomesThatAreLost(t *testing.T) {
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
	look := func(ctx context.Context, _ events.Event) error {
		seen = webhook.HandlingFrom(ctx)
		return nil
	}
	for policy, want := range map[webhook.StalePolicy]webhook.Result{
		webhook.StaleIgnore: webhook.ResultHandled, webhook.StaleReport: webhook.ResultHandled, webhook.StaleSkip: webhook.ResultSkipped,
	} {
		seen = webhook.Handling{}
		told, _ := do(t, t.Context(), webhook.Work{Handle: look, Order: webhook.ByObject, Stale: policy}, stale, nil)
		assert.Equal(t, want, told.Result)
		assert.Equal(t, policy != webhook.StaleIgnore, told.Stale)
		assert.Equal(t, policy == webhook.StaleReport, seen.Stale)
	}
	assert.Zero(t, webhook.HandlingFrom(t.Context()))
}

func TestWorkerNamesSubjects(t *testing.T) {
	t.Parallel()
	d := task(1).Delivery
	ageless, unreadable := d, d
	ageless.CreatedAt, unreadable.Body = time.Time{}, nil
	order := webhook.NewSubject(d, "order", "or_1")
	for _, c := range []struct {
		by             webhook.SubjectFunc
		stale          webhook.StalePolicy
		delivery       webhook.Delivery
		subject, mount webhook.Subject
	}{
		{nil, webhook.StaleIgnore, d, "", ""},
		{webhook.ByObject, webhook.StaleIgnore, d, order, ""},
		{webhook.ByObject, webhook.StaleReport, d, order, order},
		{webhook.ByObject, webhook.StaleReport, ageless, order, ""},
		{webhook.ByObject, webhook.StaleReport, unreadable, "", ""},
	} {
		w, err := webhook.NewWorker(webhook.Work{Handle: succeed, Order: c.by, Stale: c.stale})
		require.NoError(t, err)
		subject, object := w.Subjects(c.delivery)
		assert.Equal(t, c.subject, subject)
		assert.Equal(t, c.mount, object)
	}
}

func TestWorkerRefuses(t *testing.T) {
	t.Parallel()
	for _, w := range []webhook.Work{
		{}, {Handle: succeed, Workers: -1}, {Handle: succeed, HandlerTimeout: -1}, {Handle: succeed, Stale: 7},
		{Handle: succeed, Stale: webhook.StaleSkip}, {Handle: succeed, Retry: webhook.RetryPolicy{MaxAttempts: -1}},
	} {
		_, err := webhook.NewWorker(w)
		require.Error(t, err)
	}
	w, err := webhook.NewWorker(webhook.Work{Handle: succeed})
	require.NoError(t, err)
	assert.Equal(t, webhook.RetryPolicy{MaxAttempts: 25, BackOff: time.Second, MaxBackOff: time.Hour}, w.Work().Retry)
	assert.Equal(t, "webhook.Worker", fmt.Sprintf("%+v", w))
}

// TestDefaultRetriesOutlastANight adds up the default waits.
func TestDefaultRetriesOutlastANight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
			Handle: fail, Retry: webhook.RetryPolicy{MaxAttempts: webhook.DefaultMaxAttempts, MaxBackOff: webhook.DefaultMaxBackOff},
		}})
		require.NoError(t, err)
		_, err = m.Accept(t.Context(), delivery("evt_1"))
		require.NoError(t, err)
		require.ErrorIs(t, m.Close(t.Context()), memoryinbox.ErrUnfinished)
		assert.Greater(t, time.Since(start), 7*time.Hour)
		assert.Less(t, time.Since(start), 14*time.Hour)
	})
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	require.NoError(t, webhook.Permanent(nil))
	assert.False(t, webhook.IsPermanent(nil))
	assert.False(t, webhook.IsPermanent(errDown))
	err := webhook.Permanent(errDown)
	require.ErrorIs(t, err, errDown)
	require.EqualError(t, err, errDown.Error())
	assert.True(t, webhook.IsPermanent(fmt.Errorf("x: %w", err)))
	assert.True(t, webhook.IsPermanent(events.ErrNoEvent))
	assert.Equal(t, "permanent: error of type *errors.errorString", webhook.Attempt{Err: err}.Reason())
}

// TestReasonQuotesOnlySentinels holds that what a handler adds to a known error
// is not told.
func TestReasonQuotesOnlySentinels(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.DeadlineExceeded, webhook.ErrAbandoned, webhook.ErrBodyLost, events.ErrMalformed} {
		a := webhook.Attempt{Err: fmt.Errorf("%s: %w", marked, err)}
		assert.Equal(t, err.Error(), a.Reason())
	}
}

func TestRefetch(t *testing.T) {
	t.Parallel()
	var handled []events.OrderEvent
	var router webhook.Router
	router.OnOrderPlaced(webhook.Refetch(
		func(_ context.Context, e events.OrderEvent) (clinic.Order, error) {
			if e.Data.ID == "gone" {
				return clinic.Order{}, errDown
			}
			return clinic.Order{ID: e.Data.ID, OrderNumber: "new"}, nil
		},
		func(_ context.Context, e events.OrderEvent) error {
			handled = append(handled, e)
			return nil
		}))
	event := func(id string) events.Event {
		return events.Event{ID: "evt_1", Type: events.OrderPlaced, Data: []byte(`{"id":"` + id + `","order_number":"old"}`)}
	}
	require.ErrorIs(t, router.Dispatch(t.Context(), event("gone")), errDown)
	require.NoError(t, router.Dispatch(t.Context(), event("or_1")))
	require.Len(t, handled, 1)
	assert.Equal(t, "new", handled[0].Data.OrderNumber)
	assert.Nil(t, handled[0].Event.Data, "the old data is not there to be trusted")
}
