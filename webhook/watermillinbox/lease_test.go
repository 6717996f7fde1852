package watermillinbox_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// TestStuckHandlerLosesItsEvent holds that an event whose handler ignores its
// context for long is given to another one, and that the first comes too late.
func TestStuckHandlerLosesItsEvent(t *testing.T) {
	t.Parallel()
	stuck, gate := make(chan struct{}), make(chan struct{})
	inbox, _, made := onALaptop(t).start(t, func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			close(stuck)
			<-gate
		}
		return nil
	}, func(c *watermillinbox.Config) {
		c.Work.HandlerTimeout, c.Lease, c.Sweep = 20*time.Millisecond, time.Second, 100*time.Millisecond
		*c = c.WithMargin(500 * time.Millisecond)
	})
	accept(t, inbox)
	<-stuck
	a := await(t, made)
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, 2, a.Number)
	close(gate)
	a = await(t, made)
	assert.Equal(t, webhook.ResultLost, a.Result)
	assert.Equal(t, 1, a.Number)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats)
}

// TestSlowHandlerKeepsItsEvent holds that a handler may take longer than a lease.
func TestSlowHandlerKeepsItsEvent(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]webhook.SubjectFunc{"alone": nil, "in order": webhook.ByObject} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := onALaptop(t)
			quickly := func(c *watermillinbox.Config) {
				c.Lease, c.Sweep, c.Work.Order = time.Second, 50*time.Millisecond, order
			}
			var renewed atomic.Int32
			gate := make(chan struct{})
			inbox, store, made := r.start(t, func(context.Context, events.Event) error {
				<-gate
				return nil
			}, quickly)
			store.patch(func(op, key string) error {
				if op == "update" && strings.HasPrefix(key, "line.") {
					renewed.Add(1)
				}
				return nil
			})
			_, _, other := r.start(t, receivertest.Succeed, quickly)
			d := accept(t, inbox)
			var a webhook.Attempt
			select {
			case a = <-other: // it had time first
			case <-eventually(func() bool { return renewed.Load() >= 4 }):
				close(gate)
				a = await(t, made)
			}
			assert.Equal(t, webhook.ResultHandled, a.Result)
			assert.Equal(t, d.Key, a.Key)
			never(t, made)
			never(t, other)
		})
	}
}

// eventually returns a channel that is closed once something is so.
func eventually(so func() bool) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for !so() {
			time.Sleep(5 * time.Millisecond)
		}
		close(done)
	}()
	return done
}

// TestLostLeaseEndsTheHandler takes a line away while its event is handled.
func TestLostLeaseEndsTheHandler(t *testing.T) {
	t.Parallel()
	r := onALaptop(t)
	begun := make(chan struct{})
	inbox, store, made := r.start(t, func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt > 1 {
			return nil
		}
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}, func(c *watermillinbox.Config) { c.Lease, c.Sweep = time.Second, 100*time.Millisecond })
	d := accept(t, inbox)
	<-begun
	for key, err := range store.List(t.Context(), "line.") {
		require.NoError(t, err)
		found, err := store.Get(t.Context(), key)
		require.NoError(t, err)
		entry := found[key]
		entry.Value = []byte(strings.Replace(string(entry.Value), `"holder":"`, `"holder":"other`, 1))
		_, err = store.Update(t.Context(), entry)
		require.NoError(t, err)
	}
	assert.Equal(t, webhook.ResultReturned, await(t, made).Result)
	a := await(t, made) // once the other's lease has ended, whose attempt counts
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, d.Key, a.Key)
	assert.Equal(t, 2, a.Number)
}

// TestALongLineLetsOthersIn holds that a worker does not stay with a line that is
// never empty: after some events it goes back to the broker.
func TestALongLineLetsOthersIn(t *testing.T) {
	t.Parallel()
	const long = 200
	gate := make(chan struct{})
	r := onALaptop(t)
	inbox, _, made := r.start(t, func(context.Context, events.Event) error {
		<-gate
		return nil
	}, func(c *watermillinbox.Config) { c.Work.Order, c.Work.Workers = webhook.ByClinic, 1 })
	for range long {
		accept(t, inbox)
	}
	require.Equal(t, long, r.published.published())
	close(gate)
	for range long {
		assert.Equal(t, webhook.ResultHandled, await(t, made).Result)
	}
	assert.Equal(t, long+3, r.published.published())
}

// TestOnlyThePastIsPurged holds that what is not done stays for as long as it takes.
func TestOnlyThePastIsPurged(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := onALaptop(t)
	inbox, store, made := r.start(t, func(_ context.Context, e events.Event) error {
		switch e.Type {
		case events.PatientCreated:
			return webhook.Permanent(errDown)
		case events.OrderPlaced:
			<-gate
		}
		return nil
	}, func(c *watermillinbox.Config) { c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StaleReport })
	defer close(gate)
	done := accept(t, inbox)
	handled(t, made, done)
	of := func(kind events.Type) webhook.Delivery {
		d := receivertest.NewDelivery()
		d.Type, d.Body = kind, []byte(strings.Replace(string(d.Body), "patient.updated", string(kind), 1))
		require.True(t, isNew(t, inbox, d))
		return d
	}
	dead := of(events.PatientCreated)
	require.Equal(t, webhook.ResultDead, await(t, made).Result)
	waits := of(events.OrderPlaced)
	require.NoError(t, store.Purge(t.Context(), time.Now().Add(-watermillinbox.DefaultRetention)))
	require.False(t, isNew(t, inbox, done))
	require.NoError(t, store.Purge(t.Context(), time.Now().Add(time.Hour)))
	missing, err := inbox.Missing(t.Context(), []webhook.Key{done.Key, dead.Key, waits.Key})
	require.NoError(t, err)
	assert.Equal(t, []webhook.Key{done.Key}, missing)
	for _, entry := range r.stored() {
		assert.False(t, strings.HasPrefix(entry.Key, "kept.newest."), "what the stale guard knows is forgotten too")
	}
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, stats.Waiting)
	assert.Equal(t, 1, stats.Dead)
	assert.WithinDuration(t, time.Now(), stats.Oldest, time.Hour)
	require.NoError(t, inbox.Discard(t.Context(), dead.Key))
	require.NoError(t, store.Purge(t.Context(), time.Now().Add(time.Hour)))
	require.True(t, isNew(t, inbox, dead), "what was discarded is the past, too")
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*watermillinbox.Config){
		"Seal":              func(c *watermillinbox.Config) { c.Seal = nil },
		"Store":             func(c *watermillinbox.Config) { c.Store = nil },
		"Publisher":         func(c *watermillinbox.Config) { c.Publisher = nil },
		"Subscriber":        func(c *watermillinbox.Config) { c.Subscriber = nil },
		"negative":          func(c *watermillinbox.Config) { c.Subscriptions = -1 },
		"Lease":             func(c *watermillinbox.Config) { c.Lease = time.Millisecond },
		"Retention":         func(c *watermillinbox.Config) { c.Retention = time.Hour },
		"Handle":            func(c *watermillinbox.Config) { c.Work.Handle = nil },
		"the store is down": func(c *watermillinbox.Config) { c.Store = downStore{} },
	} {
		config, err := onALaptop(t).config(webhook.Work{Handle: receivertest.Succeed})
		require.NoError(t, err)
		spoil(&config)
		_, err = watermillinbox.New(t.Context(), config)
		require.ErrorContains(t, err, field)
	}
}

// downStore knows nothing, not even the time.
type downStore struct{ watermillinbox.Store }

func (downStore) Now(context.Context) (time.Time, error) { return time.Time{}, errDown }
