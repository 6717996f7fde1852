package memoryinbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// delivery makes an accepted event with the given id.
func delivery(id string) webhook.Delivery {
	return webhook.Delivery{
		Key:        webhook.Key{Environment: sandbox, EventID: id, IntegrationID: "in_1"},
		Type:       events.OrderPlaced,
		ReceivedAt: time.Now(),
		Body:       []byte(`{"event":{"id":"` + id + `","type":"order.placed","data":{"order":{"id":"or_1"}}}}`),
	}
}

// fixture is an inbox with what its handler saw, and when, and what it reported.
type fixture struct {
	*memoryinbox.Inbox
	mu       sync.Mutex
	handled  []events.Event
	at       []time.Time
	attempts []webhook.Attempt
}

// newFixture makes an inbox whose handler returns what handle does.
func newFixture(t *testing.T, handle webhook.HandlerFunc, change func(*memoryinbox.Config)) *fixture {
	t.Helper()
	m := &fixture{}
	config := memoryinbox.Config{Work: webhook.Work{
		Handle: func(ctx context.Context, e events.Event) error {
			m.mu.Lock()
			m.handled, m.at = append(m.handled, e), append(m.at, time.Now())
			m.mu.Unlock()
			return handle(ctx, e)
		},
		Observer: webhook.Observer{AttemptEnd: func(_ context.Context, a webhook.Attempt) {
			m.mu.Lock()
			m.attempts = append(m.attempts, a)
			m.mu.Unlock()
		}},
	}}
	if change != nil {
		change(&config)
	}
	inbox, err := memoryinbox.New(config)
	require.NoError(t, err)
	m.Inbox = inbox
	return m
}

func (m *fixture) accept(t *testing.T, id string) (duplicate bool) {
	t.Helper()
	receipt, err := m.Accept(t.Context(), delivery(id))
	require.NoError(t, err)
	return receipt.Duplicate
}

// letters returns the dead letters.
func (m *fixture) letters(t *testing.T) []engine.DeadLetter {
	t.Helper()
	var letters []engine.DeadLetter
	for letter, err := range m.DeadLetters(t.Context()) {
		require.NoError(t, err)
		letters = append(letters, letter)
	}
	return letters
}

var sandbox = api.Environment{Region: api.US, Stage: api.Sandbox}

var errDown = errors.New("the database is down")

func succeed(context.Context, events.Event) error { return nil }
func fail(context.Context, events.Event) error    { return errDown }

func TestInboxHandlesEachEventOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFixture(t, succeed, nil)
		for range 3 {
			for i := range 20 {
				m.accept(t, fmt.Sprint("evt_", i))
			}
			synctest.Wait()
		}
		assert.True(t, m.accept(t, "evt_7"), "a duplicate of a handled event")
		require.NoError(t, m.Close(t.Context()))
		assert.Len(t, m.handled, 20)
		assert.Equal(t, "in_1", m.handled[0].IntegrationID, "from the key")
	})
}

func TestInboxRecognisesConcurrentDuplicates(t *testing.T) {
	t.Parallel()
	m := newFixture(t, succeed, nil)
	var fresh atomic.Int32
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			receipt, err := m.Accept(context.Background(), delivery("evt_1"))
			assert.NoError(t, err)
			if !receipt.Duplicate {
				fresh.Add(1)
			}
		})
	}
	group.Wait()
	require.NoError(t, m.Close(context.Background()))
	assert.EqualValues(t, 1, fresh.Load())
	assert.Len(t, m.handled, 1)
}

func TestInboxTriesAgainWithGrowingWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := newFixture(t, fail, func(c *memoryinbox.Config) {
			c.Work.Retry.MaxAttempts, c.Work.Retry.BackOff, c.Work.Retry.MaxBackOff = 6, time.Second, 5*time.Second
		})
		m.accept(t, "evt_1")
		require.ErrorIs(t, m.Close(t.Context()), memoryinbox.ErrUnfinished)
		require.Len(t, m.at, 6)
		assert.Equal(t, start, m.at[0], "the first attempt is made at once")
		for i, most := range []time.Duration{1, 2, 4, 5, 5} {
			wait := m.at[i+1].Sub(m.at[i])
			assert.Equal(t, m.attempts[i].RetryIn, wait)
			assert.LessOrEqual(t, wait, most*time.Second)
			assert.GreaterOrEqual(t, wait, most*time.Second/2)
			assert.Equal(t, i+1, m.attempts[i].Number)
			assert.Equal(t, errDown, m.attempts[i].Err)
		}
		assert.Zero(t, m.attempts[5].RetryIn, "the last attempt")
	})
}

func TestInboxTakesEveryFailureForOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle webhook.HandlerFunc
		err    error
	}{
		"error":    {fail, errDown},
		"panic":    {func(context.Context, events.Event) error { panic("no") }, webhook.ErrPanic},
		"goexit":   {func(context.Context, events.Event) error { runtime.Goexit(); return nil }, webhook.ErrPanic},
		"too slow": {func(ctx context.Context, _ events.Event) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newFixture(t, c.handle, func(c *memoryinbox.Config) { c.Work.Retry.MaxAttempts, c.Work.Workers = 3, 1 })
				m.accept(t, "evt_1")
				m.accept(t, "evt_2")
				var unfinished *memoryinbox.UnfinishedError
				require.ErrorAs(t, m.Close(t.Context()), &unfinished)
				assert.Len(t, unfinished.Deliveries, 2)
				assert.Len(t, m.handled, 6)
				letters := m.letters(t)
				require.Len(t, letters, 2)
				assert.Equal(t, 3, letters[0].Attempts)
				require.ErrorIs(t, letters[0].Err, c.err)
			})
		})
	}
}

func TestInboxFailsOnBodiesItCannotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFixture(t, succeed, func(c *memoryinbox.Config) { c.Work.Retry.MaxAttempts = 1 })
		d := delivery("evt_1")
		d.Body = []byte("{")
		_, err := m.Accept(t.Context(), d)
		require.NoError(t, err, "an inbox does not look into bodies")
		require.ErrorIs(t, m.Close(t.Context()), memoryinbox.ErrUnfinished)
		require.ErrorIs(t, m.letters(t)[0].Err, events.ErrMalformed)
		assert.Empty(t, m.handled)
	})
}

func TestInboxKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		broken.Store(true)
		m := newFixture(t, func(context.Context, events.Event) error {
			if broken.Load() {
				return errDown
			}
			return nil
		}, func(c *memoryinbox.Config) { c.Work.Retry.MaxAttempts = 2 })
		for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
			m.accept(t, id)
			time.Sleep(time.Minute)
		}
		letters := m.letters(t)
		require.Len(t, letters, 3)
		first, second, third := letters[0].Key, letters[1].Key, letters[2].Key
		assert.Equal(t, "evt_1", first.EventID, "the oldest first")
		assert.True(t, m.accept(t, "evt_1"), "a dead letter is a duplicate too")

		require.NoError(t, m.Replay(t.Context(), first)) // still broken
		time.Sleep(time.Minute)
		require.Len(t, m.letters(t), 3)
		assert.Equal(t, 2, m.letters(t)[2].Attempts, "attempts count anew")

		broken.Store(false)
		require.NoError(t, m.Replay(t.Context(), first))
		synctest.Wait()
		require.NoError(t, m.Discard(t.Context(), second))
		require.Len(t, m.letters(t), 1)
		assert.True(t, m.accept(t, "evt_1"))
		assert.True(t, m.accept(t, "evt_2"), "what was discarded stays known")

		require.ErrorIs(t, m.Replay(t.Context(), first), webhook.ErrNoDeadLetter)
		require.ErrorIs(t, m.Discard(t.Context(), second), webhook.ErrNoDeadLetter)
		var unfinished *memoryinbox.UnfinishedError
		require.ErrorAs(t, m.Close(t.Context()), &unfinished)
		require.Len(t, unfinished.Deliveries, 1)
		assert.Equal(t, third, unfinished.Deliveries[0].Key)
		require.EqualError(t, unfinished, "memoryinbox: closed with events that are not handled: 1")
		require.ErrorIs(t, m.Replay(t.Context(), third), webhook.ErrInboxClosed)
		require.NoError(t, m.Discard(t.Context(), third))
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestInboxRefusesWhatItHasNoRoomFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m := newFixture(t, func(context.Context, events.Event) error { <-gate; return nil }, func(c *memoryinbox.Config) {
			c.Work.Workers, c.MaxEvents, c.MaxBytes = 1, 3, 1000
		})
		large := delivery("large")
		large.Body = make([]byte, 2000)
		_, err := m.Accept(t.Context(), large)
		require.ErrorIs(t, err, webhook.ErrInboxFull)
		for _, id := range []string{"evt_1", "evt_2", "evt_3"} {
			m.accept(t, id)
		}
		_, err = m.Accept(t.Context(), delivery("evt_4"))
		require.ErrorIs(t, err, webhook.ErrInboxFull)
		assert.True(t, m.accept(t, "evt_1"), "duplicates need no room")
		close(gate)
		synctest.Wait()
		m.accept(t, "evt_4")
		require.NoError(t, m.Close(t.Context()))
		assert.Len(t, m.handled, 4)
	})
}

func TestInboxForgetsTheOldestKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFixture(t, succeed, func(c *memoryinbox.Config) { c.MaxKeys = 2 })
		for _, c := range []struct {
			id        string
			duplicate bool
		}{{"a", false}, {"b", false}, {"a", true}, {"c", false}, {"a", false}, {"c", true}, {"b", false}} {
			assert.Equal(t, c.duplicate, m.accept(t, c.id), c.id)
			synctest.Wait()
		}
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestInboxCloses(t *testing.T) {
	t.Parallel()
	t.Run("after what it holds is handled, retries included", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			m := newFixture(t, func(context.Context, events.Event) error {
				time.Sleep(time.Second)
				if n.Add(1) < 4 {
					return errDown
				}
				return nil
			}, nil)
			m.accept(t, "evt_1")
			require.NoError(t, m.Close(t.Context()))
			assert.Len(t, m.handled, 4)
			_, err := m.Accept(t.Context(), delivery("evt_2"))
			require.ErrorIs(t, err, webhook.ErrInboxClosed)
			require.NoError(t, m.Close(t.Context()), "again")
		})
	})
	t.Run("when time is up, giving back what it holds", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			m := newFixture(t, func(ctx context.Context, e events.Event) error {
				if e.ID == "fails" {
					return errDown
				}
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}, func(c *memoryinbox.Config) {
				c.Work.Workers, c.Work.HandlerTimeout, c.Work.Retry.BackOff = 2, time.Hour, time.Minute
			})
			for _, id := range []string{"fails", "hangs"} {
				m.accept(t, id)
				time.Sleep(time.Second)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start := time.Now()
			var unfinished *memoryinbox.UnfinishedError
			require.ErrorAs(t, m.Close(ctx), &unfinished)
			assert.Equal(t, 10*time.Second, time.Since(start))
			require.Len(t, unfinished.Deliveries, 2)
			assert.Equal(t, "fails", unfinished.Deliveries[0].Key.EventID, "the oldest first")
			require.ErrorIs(t, <-ended, context.Canceled, "the handler's context is cancelled")
			time.Sleep(time.Hour)
			assert.Len(t, m.handled, 2, "nothing is tried any more")
		})
	})
}

func TestInboxDoesNotAcceptForACallerWhoIsGone(t *testing.T) {
	t.Parallel()
	m := newFixture(t, succeed, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Accept(ctx, delivery("evt_1"))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, m.Close(t.Context()))
	assert.Empty(t, m.handled)
}

func TestInboxSurvivesItsObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFixture(t, succeed, func(c *memoryinbox.Config) {
			c.Work.Observer.AttemptEnd = func(context.Context, webhook.Attempt) { panic("observer") }
		})
		m.accept(t, "evt_1")
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []memoryinbox.Config{
		{}, {Work: webhook.Work{Handle: succeed, Workers: -1}}, {Work: webhook.Work{Handle: succeed}, MaxBytes: -1},
		{Work: webhook.Work{Handle: succeed, Retry: webhook.RetryPolicy{BackOff: -1}}},
	} {
		_, err := memoryinbox.New(c)
		require.Error(t, err)
	}
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
