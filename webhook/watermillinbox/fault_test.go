package watermillinbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
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

// TestAcceptBreaksOff holds that an accept which ended between its two entries, as
// it can in a store that writes one after the other, is made good by the next one,
// and that what it has left is cleared away.
func TestAcceptBreaksOff(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]webhook.SubjectFunc{"alone": nil, "in order": webhook.ByObject} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inbox, store, made := onALaptop(t).start(t, receivertest.Succeed, func(c *watermillinbox.Config) {
				c.Work.Order = order
				c.Store.(*patched).single = true
			})
			d := receivertest.NewDelivery()
			store.patch(failing("create", "kept.event."))
			_, err := inbox.Accept(t.Context(), d)
			require.ErrorIs(t, err, errDown)
			store.patch(nil)
			d.ReceivedAt = d.ReceivedAt.Add(time.Minute) // the platform's next attempt
			require.True(t, isNew(t, inbox, d))
			handled(t, made, d)
			require.NoError(t, inbox.SweepNow())
			require.Eventually(t, func() bool {
				stats, err := inbox.Stats(t.Context())
				return err == nil && stats == webhook.Stats{}
			}, 30*time.Second, 10*time.Millisecond)
			require.False(t, isNew(t, inbox, d))
			never(t, made)
		})
	}
}

// TestAnswersAreLost holds that a store which does not answer, though it has done
// what it was asked for, makes an event neither new twice nor lost.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	inbox, store, made := onALaptop(t).start(t, receivertest.Succeed)
	d := receivertest.NewDelivery()
	store.answerless("create")
	_, err := inbox.Accept(t.Context(), d)
	require.ErrorIs(t, err, errDown)
	never(t, made)
	require.False(t, isNew(t, inbox, d), "it is known")
	handled(t, made, d) // and told of again

	store.answerless("update") // of the outcome
	handled(t, made, accept(t, inbox))
}

// TestOutcomesAreLeftHalfNoted ends processes between the writes of an outcome.
func TestOutcomesAreLeftHalfNoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails  func(string, string) error
		handle webhook.HandlerFunc
		want   webhook.Stats
	}{
		"done":                 {failing("delete", "pending."), receivertest.Succeed, webhook.Stats{}},
		"dead, and not listed": {failing("create", "dead."), permanently, webhook.Stats{Dead: 1}},
		"dead, and listed":     {failing("delete", "pending."), permanently, webhook.Stats{Dead: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inbox, store, made := onALaptop(t).start(t, c.handle)
			store.patch(c.fails)
			d := accept(t, inbox)
			require.NotEqual(t, webhook.ResultLost, await(t, made).Result)
			store.patch(nil)
			require.Eventually(t, func() bool {
				assert.NoError(t, inbox.SweepNow())
				stats, err := inbox.Stats(t.Context())
				return err == nil && stats == c.want
			}, 30*time.Second, 50*time.Millisecond)
			require.False(t, isNew(t, inbox, d))
			never(t, made)
			n := 0
			for letter, err := range inbox.DeadLetters(t.Context()) {
				require.NoError(t, err)
				assert.Equal(t, d.Key, letter.Key)
				n++
			}
			assert.Equal(t, c.want.Dead, n)
		})
	}
}

func permanently(context.Context, events.Event) error { return webhook.Permanent(errDown) }

// TestReplaysAndDiscardsAreLeftHalfDone does the same with what operators do.
func TestReplaysAndDiscardsAreLeftHalfDone(t *testing.T) {
	t.Parallel()
	var repaired atomic.Bool
	inbox, store, made := onALaptop(t).start(t, func(ctx context.Context, e events.Event) error {
		if repaired.Load() {
			return nil
		}
		return permanently(ctx, e)
	})
	replayed, discarded := accept(t, inbox), accept(t, inbox)
	for range 2 {
		require.Equal(t, webhook.ResultDead, await(t, made).Result)
	}
	repaired.Store(true)
	store.patch(failing("update", "kept.event."))
	require.ErrorIs(t, inbox.Replay(t.Context(), replayed.Key), errDown)
	require.ErrorIs(t, inbox.Discard(t.Context(), discarded.Key), errDown)
	require.NoError(t, inbox.SweepNow())
	never(t, made)
	store.patch(failing("delete", "dead."))
	require.NoError(t, inbox.Replay(t.Context(), replayed.Key))
	require.NoError(t, inbox.Discard(t.Context(), discarded.Key))
	handled(t, made, replayed)
	store.patch(nil)
	require.ErrorIs(t, inbox.Replay(t.Context(), replayed.Key), webhook.ErrNoDeadLetter)
	for letter, err := range inbox.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Fail(t, "listed", "%s", letter)
	}
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats, "what was left on the list is off it")
}

// TestTheStoreIsAwayForAMoment holds that work which is done is not done again.
func TestTheStoreIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	var store *patched
	var refused atomic.Int32
	inbox, store, made := onALaptop(t).start(t, func(context.Context, events.Event) error {
		store.patch(func(op, _ string) error {
			if refused.Add(1) > 6 {
				return nil
			}
			return errDown
		})
		return nil
	})
	d := accept(t, inbox)
	handled(t, made, d)
	assert.Greater(t, refused.Load(), int32(6))
	never(t, made)
}

// TestLogsAndErrorsTellNothing pumps marked data through every outcome.
func TestLogsAndErrorsTellNothing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var out bytes.Buffer
	log := writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	})
	r := onALaptop(t)
	inbox, store, made := r.start(t, func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			panic(receivertest.Canary)
		}
		return fmt.Errorf("no such patient: %s", receivertest.Canary)
	}, func(c *watermillinbox.Config) {
		c.Work.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Work.Retry = webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond}
		c.Publisher = publisherFunc(nil) // panics
	})
	accept(t, inbox)
	await(t, made)
	await(t, made)
	store.patch(func(string, string) error { return errDown })
	_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
	require.ErrorIs(t, err, errDown)
	fmt.Fprintln(log, err)
	store.patch(nil)
	for letter, err := range inbox.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Contains(t, string(letter.Body), receivertest.Canary, "the letter has it, for those who ask")
		require.Contains(t, letter.Err.Error(), receivertest.Canary)
		fmt.Fprintf(log, "%v %+v %#v %s\n", letter, letter, letter, letter.Reason)
	}
	fmt.Fprintf(log, "%v %+v %#v %v", inbox, inbox, inbox, r.store())
	mu.Lock()
	defer mu.Unlock()
	assert.NotContains(t, out.String(), receivertest.Canary)
	assert.Contains(t, out.String(), `"outcome":"dead"`)
	assert.Contains(t, out.String(), "cannot publish")
	assert.NotContains(t, string(r.stored().bytes()), receivertest.Canary)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestBodiesWithoutTheirKeyWait takes the key away, and brings it back.
func TestBodiesWithoutTheirKeyWait(t *testing.T) {
	t.Parallel()
	r := onALaptop(t)
	inbox, store, _ := r.start(t, receivertest.Succeed)
	store.patch(failing("get", "")) // nobody handles it here
	d := accept(t, inbox)
	inbox.Crash()
	right := r.keys
	r.keys = receivertest.KeyRing(t)
	inbox, _, made := r.start(t, receivertest.Succeed, func(c *watermillinbox.Config) { c.Work.Retry.MaxAttempts = 1 })
	a := await(t, made)
	assert.Equal(t, webhook.ResultDead, a.Result)
	require.ErrorIs(t, a.Err, webhook.ErrBodyLost)
	for letter, err := range inbox.DeadLetters(t.Context()) {
		require.NoError(t, err)
		assert.Nil(t, letter.Body)
		assert.Equal(t, d.Key, letter.Key)
		require.ErrorIs(t, letter.Err, webhook.ErrBodyLost)
	}
	require.NoError(t, inbox.Close(t.Context()))
	r.keys = right
	inbox, _, made = r.start(t, receivertest.Succeed)
	require.NoError(t, inbox.Replay(t.Context(), d.Key))
	handled(t, made, d)
}
