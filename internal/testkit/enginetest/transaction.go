package enginetest

import (
	"context"
	"errors"
	"runtime"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// transactions tests handlers that store rows of their own together with the outcome.
var transactions = map[string]func(*harness){
	"Success":   func(r *harness) { r.transaction(writes(nil), webhook.ResultHandled) },
	"Error":     func(r *harness) { r.transaction(writes(func() error { return errDown }), failedOnce...) },
	"Panic":     func(r *harness) { r.transaction(writes(func() error { panic("no") }), failedOnce...) },
	"Goexit":    func(r *harness) { r.transaction(writes(func() error { runtime.Goexit(); return nil }), failedOnce...) },
	"LateError": func(r *harness) { r.transaction(lateError, webhook.ResultHandled) },
	"LatePanic": func(r *harness) { r.transaction(latePanic, webhook.ResultHandled) },
	"Twice":     func(r *harness) { r.transaction(twice, webhook.ResultHandled) },
	"Ended":     func(r *harness) { r.transaction(endedContext, failedOnce...) },
	"NoHandler": noHandler,
}

var failedOnce = []webhook.Result{webhook.ResultFailed, webhook.ResultHandled}

// writeRow writes a row in the engine's InTransaction, and then calls the function.
type writeRow func(ctx context.Context, then func() error) error

func writes(then func() error) func(*harness, context.Context, writeRow) error {
	return func(_ *harness, ctx context.Context, write writeRow) error { return write(ctx, then) }
}

func lateError(_ *harness, ctx context.Context, write writeRow) error {
	return errors.Join(write(ctx, nil), errDown)
}

func latePanic(_ *harness, ctx context.Context, write writeRow) error {
	if err := write(ctx, nil); err != nil {
		return err
	}
	panic("no")
}

func twice(r *harness, ctx context.Context, write writeRow) error {
	assert.NoError(r, write(ctx, nil))
	assert.Error(r, write(ctx, nil))
	return nil
}

func endedContext(_ *harness, ctx context.Context, write writeRow) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return write(ctx, nil)
}

// transaction makes the first attempt of an event with first, and others that succeed,
// and holds that the row is there once, and the attempts came to the results.
func (r *harness) transaction(first func(*harness, context.Context, writeRow) error, results ...webhook.Result) {
	r.Helper()
	r.need(r.storage.InTransaction != nil && r.storage.Rows != nil, "InTransaction and Rows")
	write := func(ctx context.Context, then func() error) error {
		if then == nil {
			then = func() error { return nil }
		}
		return r.storage.InTransaction(ctx, then)
	}
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			return first(r, ctx, write)
		}
		return write(ctx, nil)
	}, func(w *webhook.Work) {
		if r.storage.Ordered {
			w.Order = webhook.ByObject
		}
	})
	require.Empty(r, r.storage.Rows(r.T))
	d, next := patient("evt_1", "pa_1", 1), patient("evt_2", "pa_1", 2)
	r.accept(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
	assert.Equal(r, results, r.results(d))
	assert.Equal(r, []string{d.Key.String()}, r.storage.Rows(r.T))
	r.holds(inbox, engine.Stats{})
	r.accept(inbox, next)
	r.wait("another attempt", func([]webhook.Attempt) bool { return len(r.ofLocked(next)) > 0 })
}

func noHandler(r *harness) {
	r.need(r.storage.InTransaction != nil, "InTransaction")
	require.Error(r, r.storage.InTransaction(r.Context(), func() error { return nil }))
}
