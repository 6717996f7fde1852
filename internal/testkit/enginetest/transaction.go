package enginetest

import (
	"context"
	"runtime"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// transactions tests handlers that store their own rows together with the outcome.
// [inboxkit.InTransaction] has its own tests.
var transactions = map[string]func(*harness){
	"Success": func(r *harness) { r.transaction(func() error { return nil }, webhook.ResultHandled) },
	"Error":   func(r *harness) { r.transaction(func() error { return errDown }, failedOnce...) },
	"Panic":   func(r *harness) { r.transaction(func() error { panic("no") }, failedOnce...) },
	"Goexit":  func(r *harness) { r.transaction(func() error { runtime.Goexit(); return nil }, failedOnce...) },
	"Ended":   func(r *harness) { r.transaction(nil, failedOnce...) },
}

var failedOnce = []webhook.Result{webhook.ResultFailed, webhook.ResultHandled}

// transaction makes a first attempt that writes a row and calls first, or writes with an ended
// context if first is nil. Later attempts succeed. The row must exist once, and the attempts
// must have the given results.
func (r *harness) transaction(first func() error, results ...webhook.Result) {
	r.Helper()
	r.need(r.storage.InTransaction != nil && r.storage.Rows != nil, "InTransaction and Rows")
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		then := func() error { return nil }
		switch {
		case webhook.HandlingFrom(ctx).Attempt > 1:
		case first != nil:
			then = first
		default:
			ended, cancel := context.WithCancel(ctx)
			cancel()
			ctx = ended
		}
		return r.storage.InTransaction(ctx, then)
	}, byObject)
	require.Empty(r, r.storage.Rows(r.T))
	d, next := patient("evt_1", "pa_1", 1), patient("evt_2", "pa_1", 2)
	r.accept(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
	assert.Equal(r, results, r.results(d))
	assert.Equal(r, []string{d.Key.String()}, r.storage.Rows(r.T))
	r.holds(inbox, engine.Stats{})
	r.accept(inbox, next)
	r.waitAttempts(1, next)
}
