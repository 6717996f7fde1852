package inboxkit_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// batches records the commits of a batcher. The first batch waits until the gate is closed, so
// that later writes are in the queue when the second batch is gathered.
type batches struct {
	*inboxkit.Batcher[string]
	mu   sync.Mutex
	made [][]string
	gate chan struct{}
	done sync.WaitGroup
}

func newBatches(t *testing.T, c inboxkit.BatcherConfig[string]) *batches {
	b := &batches{gate: make(chan struct{})}
	c.Commit = func(batch []*inboxkit.Write[string]) {
		var values []string
		for _, w := range batch {
			values = append(values, w.Value)
		}
		b.mu.Lock()
		b.made = append(b.made, values)
		b.mu.Unlock()
		if values[0] == "first" {
			<-b.gate
		}
		for _, w := range batch {
			w.Done(nil)
		}
	}
	b.Batcher = inboxkit.NewBatcher(c)
	b.ask(t, b.DoUrgent, 1, "first")
	synctest.Wait()
	return b
}

// ask submits n writes.
func (b *batches) ask(t *testing.T, do func(context.Context, string) error, n int, value string) {
	for range n {
		b.done.Go(func() { assert.NoError(t, do(t.Context(), value)) })
	}
}

// second returns the number of each value in the second batch, and its first value.
func (b *batches) second(t *testing.T) (counts map[string]int, first string) {
	t.Helper()
	synctest.Wait()
	close(b.gate)
	b.done.Wait()
	b.Close()
	counts = map[string]int{}
	require.Greater(t, len(b.made), 1)
	for _, value := range b.made[1] {
		counts[value]++
	}
	return counts, b.made[1][0]
}

func TestBatcherGathers(t *testing.T) {
	t.Parallel()
	const half = 1 << 19 // of the maximum size of a batch
	for name, c := range map[string]struct {
		urgent, normal int
		config         inboxkit.BatcherConfig[string]
		want           map[string]int
	}{
		"normal writes": {0, 900, inboxkit.BatcherConfig[string]{}, map[string]int{"normal": 256}},
		"urgent first":  {4, 900, inboxkit.BatcherConfig[string]{}, map[string]int{"urgent": 4, "normal": 252}},
		"limit":         {4, 900, inboxkit.BatcherConfig[string]{Limit: 4}, map[string]int{"urgent": 4, "normal": 4}},
		"few":           {4, 2, inboxkit.BatcherConfig[string]{}, map[string]int{"urgent": 4, "normal": 2}},
		"large":         {0, 900, inboxkit.BatcherConfig[string]{Size: func(string) int { return half }}, map[string]int{"normal": 3}},
		"too many":      {300, 1, inboxkit.BatcherConfig[string]{}, map[string]int{"urgent": 256, "normal": 1}},
		"only urgent":   {3, 0, inboxkit.BatcherConfig[string]{}, map[string]int{"urgent": 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBatches(t, c.config)
			b.ask(t, b.Do, c.normal, "normal")
			b.ask(t, b.DoUrgent, c.urgent, "urgent")
			counts, first := b.second(t)
			assert.Equal(t, c.want, counts, name)
			if c.urgent > 0 {
				assert.Equal(t, "urgent", first, name)
			}
		})
	}
}

// A batch contains at most 256 writes, urgent writes first.
func TestBatcherCommitsUrgentWritesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, inboxkit.BatcherConfig[string]{})
		b.ask(t, b.Do, 300, "normal")
		b.PostUrgent("posted")
		assert.Equal(t, 300, func() int { synctest.Wait(); return b.Waiting() - 1 }())
		counts, first := b.second(t)
		assert.Equal(t, map[string]int{"posted": 1, "normal": 255}, counts)
		assert.Equal(t, "posted", first)
	})
}

// A write with a canceled caller is not committed. A write after Close is rejected.
func TestBatcherDropsCanceledWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, inboxkit.BatcherConfig[string]{})
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- b.Do(ctx, "given up") }()
		b.ask(t, b.Do, 1, "normal")
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		require.ErrorIs(t, b.Do(ctx, "ended"), context.Canceled)
		counts, _ := b.second(t)
		assert.Equal(t, map[string]int{"normal": 1}, counts)
		require.ErrorIs(t, b.Do(t.Context(), "late"), webhook.ErrInboxClosed)
		b.Close()
	})
}

func TestBatcherCommitsQueueOnClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, inboxkit.BatcherConfig[string]{})
		b.ask(t, b.Do, 600, "normal")
		b.ask(t, b.DoUrgent, 5, "urgent")
		synctest.Wait()
		closed := make(chan struct{})
		go func() { b.Close(); close(closed) }()
		synctest.Wait()
		close(b.gate)
		<-closed
		b.done.Wait()
		total := 0
		for _, batch := range b.made {
			total += len(batch)
		}
		assert.Equal(t, 606, total)
	})
}

func TestLifecycleCloses(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	t.Run("waits for tasks", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := inboxkit.NewLifecycle()
			done, ok := l.Begin()
			require.True(t, ok)
			drained, ended := false, false
			go func() { time.Sleep(time.Hour); assert.NoError(t, l.Context().Err()); done() }()
			err := l.Close(t.Context(), func() { drained = true }, func() error { ended = true; return broken })
			require.ErrorIs(t, err, broken)
			assert.True(t, drained && ended && l.Stopped())
			require.ErrorIs(t, l.Context().Err(), context.Canceled)
			_, ok = l.Begin()
			assert.False(t, ok)
			require.ErrorIs(t, l.Close(t.Context(), nil, nil), broken, "second Close")
		})
	})
	t.Run("cancels tasks", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := inboxkit.NewLifecycle()
			l.Go(func() { <-l.Context().Done() })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			require.NoError(t, l.Close(ctx, func() {}, func() error { return nil }))
			assert.Equal(t, time.Minute, time.Since(start))
		})
	})
	t.Run("abandons stuck tasks", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			l := inboxkit.NewLifecycle()
			gate, storage := make(chan struct{}), make(chan struct{})
			l.Go(func() { <-gate })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			err := l.Close(ctx, func() {}, func() error { <-storage; return nil })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, time.Minute+2*l.Patience, time.Since(start))
			close(gate)
			close(storage)
			require.NoError(t, l.Close(t.Context(), nil, nil), "a second Close waits for the end")
		})
	})
}

func TestLifecycleRecords(t *testing.T) {
	t.Parallel()
	away := errors.New("the database is away")
	logger := slog.New(slog.DiscardHandler)
	synctest.Test(t, func(t *testing.T) {
		l := inboxkit.NewLifecycle()
		record := func(results ...error) (calls int, err error) {
			err = l.Record(logger, 10*time.Second, func() error {
				calls++
				return results[min(calls, len(results))-1]
			})
			return calls, err
		}
		calls, err := record(away, away, nil)
		require.NoError(t, err)
		assert.Equal(t, 3, calls)
		for _, final := range []error{engine.ErrClaimLost, webhook.ErrInboxClosed} {
			calls, err = record(away, final)
			require.ErrorIs(t, err, final)
			assert.Equal(t, 2, calls)
		}
		start := time.Now()
		_, err = record(away)
		require.ErrorIs(t, err, away)
		assert.InDelta(t, 10, time.Since(start).Seconds(), 1)
		go func() { _ = l.Close(t.Context(), func() {}, func() error { return nil }) }()
		synctest.Wait()
		calls, err = record(away)
		require.ErrorIs(t, err, away)
		assert.Equal(t, 2, calls, "one more call after the end")
	})
}

// A handler may store its outcome itself. An error after that does not change it.
func TestInTransactionStoresOutcome(t *testing.T) {
	t.Parallel()
	type tx struct{ name string }
	write := func(context.Context, *tx) error { return nil }
	require.ErrorContains(t, inboxkit.InTransaction(t.Context(), write), "not from a handler")

	var stored []webhook.Attempt
	commit := func(ctx context.Context, a webhook.Attempt, write func(context.Context, *tx) error) error {
		if err := write(ctx, &tx{"open"}); err != nil {
			return err
		}
		stored = append(stored, a)
		return nil
	}
	ctx, done := inboxkit.WithTransaction(t.Context(), task(2), commit)
	assert.False(t, done())
	require.ErrorIs(t, inboxkit.InTransaction(ctx, func(context.Context, *tx) error { return errDown }), errDown)
	assert.False(t, done())
	told, observed := do(t, ctx, webhook.Work{Handle: func(ctx context.Context, _ events.Event) error {
		assert.NoError(t, inboxkit.InTransaction(ctx, write))
		assert.ErrorContains(t, inboxkit.InTransaction(ctx, write), "called twice")
		return errDown
	}}, task(2), nil)
	assert.True(t, done())
	assert.Equal(t, webhook.ResultHandled, told.Result, "the event has been handled")
	assert.NoError(t, observed.Err)
	require.Len(t, stored, 1)
	assert.Equal(t, webhook.ResultHandled, stored[0].Result)
	assert.Equal(t, 2, stored[0].Number)
}
