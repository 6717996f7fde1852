package enginetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// accepting plays the side that a webhook handler sees.
var accepting = map[string]func(*harness){
	"Once":              acceptOnce,
	"KeysAreWhole":      keysAreWhole,
	"ConcurrentlyOnce":  concurrentlyOnce,
	"AgainAfterAnError": againAfterAnError,
	"ContextHasEnded":   contextHasEnded,
	"AnyEvent":          anyEvent,
}

func acceptOnce(r *harness) {
	gate := make(chan struct{})
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		if err := until(ctx, gate); err != nil {
			return err
		}
		if e.ID == "evt_1" {
			return webhook.Permanent(context.DeadlineExceeded)
		}
		return nil
	})
	all := numbered(3)
	require.Equal(r, 3, r.accept(inbox, all...))
	require.Zero(r, r.accept(inbox, all...), "while they wait or are handled")
	close(gate)
	r.waitFor(webhook.ResultHandled, all[0], all[2])
	r.waitFor(webhook.ResultDead, all[1])
	require.Zero(r, r.accept(inbox, all...), "handled, or a dead letter")
	r.discard(inbox, all[1])
	require.Zero(r, r.accept(inbox, all...), "discarded")
	for _, d := range all {
		assert.Len(r, r.of(d), 1, "%s", d)
	}
}

// keysAreWhole holds that no part of a key is left out, mixed up with another or
// read as anything but text.
func keysAreWhole(r *harness) {
	inbox := r.open(succeed)
	d := patient("evt_1", "pa_1", 1)
	abroad := d
	abroad.Key.Environment = caSandbox
	all := []webhook.Delivery{d, abroad, integration(d, "in_2"), integration(d, ""), integration(d, "IN_1"), integration(d, "in_1 ")}
	for _, id := range []string{"EVT_1", "evt_1 ", "evt_1 in_1", "evt_1/in_1", "evt_1%2Fin_1", "\u00e9", "e\u0301", "'; --", "\x00", "\n", "%", "_", "evt_\x00"} {
		other := d
		other.Key.EventID = id
		all = append(all, other)
	}
	require.Equal(r, len(all), r.accept(inbox, all...))
	require.Zero(r, r.accept(inbox, all...))
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		assert.Len(r, r.of(d), 1, "%q", d.Key)
	}
}

// concurrentlyOnce sends every event many times at once, through several
// engines where the storage may be shared.
func concurrentlyOnce(r *harness) {
	const events, callers = 40, 6
	engines := []engine.Engine{r.open(succeed)}
	if r.storage.Shared {
		engines = append(engines, r.open(succeed), r.open(succeed))
	}
	all := numbered(events)
	var fresh [events]atomic.Int32
	for i, d := range all {
		var group sync.WaitGroup
		together := make(chan struct{})
		for caller := range callers {
			group.Go(func() {
				<-together
				receipt, err := engines[caller%len(engines)].Accept(context.Background(), d)
				assert.NoError(r, err)
				if !receipt.Duplicate {
					fresh[i].Add(1)
				}
			})
		}
		close(together)
		group.Wait()
	}
	r.waitFor(webhook.ResultHandled, all...)
	for i, d := range all {
		assert.EqualValues(r, 1, fresh[i].Load(), "%s was new to so many callers", d)
		assert.Equal(r, []webhook.Result{webhook.ResultHandled}, r.results(d))
	}
}

// againAfterAnError gives up on accepts at random moments, and tries again as
// the platform would: whatever had been stored by then, each event is there
// once.
func againAfterAnError(r *harness) {
	inbox := r.open(succeed)
	all := numbered(60)
	var group sync.WaitGroup
	for i, d := range all {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*50*time.Microsecond)
			defer cancel()
			if _, err := inbox.Accept(ctx, d); err == nil {
				return
			}
			_, err := inbox.Accept(context.Background(), d)
			assert.NoError(r, err)
		})
	}
	group.Wait()
	require.Zero(r, r.accept(inbox, all...))
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		assert.Equal(r, []webhook.Result{webhook.ResultHandled}, r.results(d))
	}
}

func contextHasEnded(r *harness) {
	inbox := r.open(succeed)
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	d := patient("evt_1", "pa_1", 1)
	_, err := inbox.Accept(ctx, d)
	require.Error(r, err)
	assert.NotContains(r, err.Error(), canary)
	require.Equal(r, 1, r.accept(inbox, d), "it was not stored")
	r.waitFor(webhook.ResultHandled, d)
}

// anyEvent holds that an inbox takes what it has never heard of, and gives it
// back as it was.
func anyEvent(r *harness) {
	inbox := r.open(succeed)
	known := patient("evt_1", "pa_1", 1)
	future := known
	future.Key.EventID, future.Type, future.ClinicID, future.CreatedAt = "evt_2", "robot.built", "", time.Time{}
	unreadable := known
	unreadable.Key.EventID, unreadable.Body = "evt_3", []byte{0xff, 0, '{'}
	empty := known
	empty.Key.EventID, empty.Body = "evt_4", nil
	r.accept(inbox, known, future, unreadable, empty)
	r.waitFor(webhook.ResultHandled, known, future)
	r.waitFor(webhook.ResultDead, unreadable, empty)
	for _, want := range []webhook.Delivery{known, future, unreadable, empty} {
		got := r.of(want)
		require.Len(r, got, 1)
		assert.Equal(r, want.Type, got[0].Type)
		assert.Equal(r, want.ClinicID, got[0].ClinicID)
		assert.Equal(r, string(want.Body), string(got[0].Body))
		assert.True(r, want.CreatedAt.Equal(got[0].CreatedAt), "%s %s", want.CreatedAt, got[0].CreatedAt)
		assert.True(r, want.ReceivedAt.Equal(got[0].ReceivedAt), "%s %s", want.ReceivedAt, got[0].ReceivedAt)
	}
	require.ErrorIs(r, r.of(unreadable)[0].Err, events.ErrMalformed)
}
