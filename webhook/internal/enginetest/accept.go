package enginetest

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// accepting tests the calls of a webhook handler, and the keys of finished events.
var accepting = map[string]func(*harness){
	"Once":              acceptOnce,
	"KeysAreDistinct":   keysAreDistinct,
	"ConcurrentlyOnce":  concurrentlyOnce,
	"RetriedAfterError": againAfterAnError,
	"AnyEvent":          anyEvent,
	"MissingInOrder":    missingInOrder,
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
	require.Equal(r, keysOf(all), r.missing(inbox, all...))
	require.Equal(r, 3, r.accept(inbox, all...))
	r.known(inbox, all...) // waiting or running
	close(gate)
	r.waitFor(webhook.ResultHandled, all[0], all[2])
	r.waitFor(webhook.ResultDead, all[1])
	r.known(inbox, all...)
	r.discard(inbox, all[1])
	r.known(inbox, all...)
	for _, d := range all {
		assert.Len(r, r.of(d), 1, "%s", d)
	}
}

// keysAreDistinct tests keys with unusual characters and with parts in each other's place. An
// engine must compare every part as plain text.
func keysAreDistinct(r *harness) {
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
	require.Equal(r, 1, r.accept(inbox, d))
	require.Equal(r, keysOf(all[1:]), r.missing(inbox, all...))
	require.Equal(r, len(all)-1, r.accept(inbox, all...))
	r.known(inbox, all...)
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		assert.Len(r, r.of(d), 1, "%q", d.Key)
	}
}

// concurrentlyOnce sends each event several times concurrently, through several engines if the
// storage is shared.
func concurrentlyOnce(r *harness) {
	const events, callers = 40, 6
	engines := r.openSeveral(succeed)
	all := numbered(events)
	var fresh [events]atomic.Int32
	for i, d := range all {
		together(callers, func(caller int) {
			receipt, err := engines[caller%len(engines)].Accept(context.Background(), d)
			assert.NoError(r, err)
			if !receipt.Duplicate {
				fresh[i].Add(1)
			}
		})
	}
	for _, inbox := range engines {
		require.Empty(r, r.missing(inbox, all...))
	}
	r.waitFor(webhook.ResultHandled, all...)
	for i, d := range all {
		assert.EqualValues(r, 1, fresh[i].Load(), "callers with %s as a new event", d)
		assert.Equal(r, []webhook.Result{webhook.ResultHandled}, r.results(d))
	}
}

// againAfterAnError cancels accepts at random moments and accepts the events again, as the
// platform would. The engine must store each event once.
func againAfterAnError(r *harness) {
	inbox := r.open(succeed)
	all := numbered(60)
	together(len(all), func(i int) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*50*time.Microsecond)
		defer cancel()
		if _, err := inbox.Accept(ctx, all[i]); err != nil {
			_, err = inbox.Accept(context.Background(), all[i])
			assert.NoError(r, err)
		}
	})
	r.known(inbox, all...)
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		assert.Equal(r, []webhook.Result{webhook.ResultHandled}, r.results(d))
	}
}

// anyEvent accepts unknown, unreadable and empty events. An engine must return them unchanged.
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
		r.same(want, got[0].Delivery)
	}
	require.ErrorIs(r, r.of(unreadable)[0].Err, events.ErrMalformed)
}

// same requires that an engine returns an event as it was accepted.
func (r *harness) same(want, got webhook.Delivery) {
	r.Helper()
	utc := func(d webhook.Delivery) webhook.Delivery {
		d.CreatedAt, d.ReceivedAt = d.CreatedAt.UTC(), d.ReceivedAt.UTC()
		return webhook.Delivery{Key: d.Key, Type: d.Type, ClinicID: d.ClinicID, CreatedAt: d.CreatedAt, ReceivedAt: d.ReceivedAt}
	}
	assert.Equal(r, utc(want), utc(got))
	assert.Equal(r, string(want.Body), string(got.Body))
}

// missingInOrder checks many keys in one call, some of them twice.
func missingInOrder(r *harness) {
	inbox := r.open(succeed)
	require.Empty(r, r.missing(inbox))
	all := numbered(500)
	slices.Reverse(all)
	var want []webhook.Key
	for i, d := range all {
		if i%50 == 0 {
			r.accept(inbox, d)
			continue
		}
		want = append(want, d.Key)
	}
	asked := append(slices.Insert(slices.Clone(all), 100, all[:10]...), all[:10]...)
	assert.Equal(r, want, r.missing(inbox, asked...), "in the order of the arguments, without duplicates")
}

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
