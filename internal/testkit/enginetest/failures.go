package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// keepsFailures requires that an engine keeps the last failures of an event over a restart, a
// replay, and an attempt that is handed back.
func keepsFailures(r *harness) {
	const all = engine.KeptFailures + 2
	gate, begun := make(chan struct{}), make(chan struct{}, 2)
	var replayed atomic.Bool
	handle := func(ctx context.Context, _ events.Event) error {
		if !replayed.Load() {
			id := fmt.Sprint("r-", webhook.HandlingFrom(ctx).Attempt)
			return fmt.Errorf("%s: %w", canary, api.NewError(api.Error{Operation: "orders.get", StatusCode: 503, RequestID: id}, nil, nil, nil))
		}
		begun <- struct{}{}
		if err := until(ctx, gate); err != nil {
			return err
		}
		return webhook.Permanent(errDown)
	}
	patiently := func(w *webhook.Work) { w.Retry.MaxAttempts = all }
	inbox, before := r.open(handle, patiently), time.Now()
	d := patient("evt_1", "pa_1", 1)
	die(r, inbox, d)
	kept := r.failures(inbox, d, 3, 4, 5, 6, 7)
	for n, f := range kept {
		a := r.of(d)[all-engine.KeptFailures+n]
		assert.Equal(r, a.Reason(), f.Reason)
		assert.Equal(r, fmt.Sprint("r-", f.Attempt), f.RequestID)
		assert.GreaterOrEqual(r, f.Duration, time.Duration(0))
		assert.WithinRange(r, f.At, before.Add(-time.Second), time.Now().Add(time.Second))
	}
	if r.storage.Durable {
		r.close(inbox)
		inbox = r.open(handle, patiently)
	}
	replayed.Store(true)
	r.replay(inbox, d)
	receive(r, begun)
	running, err := inbox.List(r.Context(), only(d), engine.Position{}, 1)
	require.NoError(r, err)
	require.Len(r, running, 1)
	assert.Equal(r, []any{1, "", kept}, []any{running[0].Attempts, running[0].Reason, running[0].Failures})
	if r.storage.Durable {
		ended, cancel := context.WithCancel(r.Context())
		cancel()
		require.NoError(r, inbox.Close(ended))
		r.forget(inbox)
		inbox = r.open(handle, patiently)
		receive(r, begun)
	}
	close(gate)
	after := r.failures(inbox, d, 4, 5, 6, 7, 1)
	assert.Equal(r, kept[1:], after[:4])
	assert.Equal(r, "permanent: unnamed error: see webhook.WithReason", after[4].Reason)
	assert.Empty(r, after[4].RequestID)
}

// failures waits until an engine lists failures of these attempts to handle an event, and
// returns them. It may record them a moment after the attempt was reported.
func (r *harness) failures(inbox engine.Engine, d webhook.Delivery, attempts ...int) (kept []engine.Failure) {
	r.Helper()
	require.Eventually(r, func() bool {
		found, err := inbox.List(r.Context(), only(d), engine.Position{}, 1)
		if err != nil || len(found) != 1 {
			return false
		}
		kept = found[0].Failures
		return slices.EqualFunc(kept, attempts, func(f engine.Failure, n int) bool { return f.Attempt == n })
	}, r.storage.Patience, time.Millisecond, "failures of attempts %v", attempts)
	return kept
}
