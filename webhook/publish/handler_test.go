package publish_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// fixture is an inbox and a handler with the middleware of the package comment, on an in-memory
// broker that redelivers unacknowledged messages.
type fixture struct {
	inbox       *publish.Inbox
	broker      *gochannel.GoChannel
	deadLetters *recorder
	log         bytes.Buffer // of Watermill and of the worker
	stop        func(cause error)

	mu       sync.Mutex
	attempts []webhook.Attempt
}

// newFixture starts a router. It adds the middleware between the retries and the handler.
func newFixture(t *testing.T, keys seal.AEAD, handle webhook.HandlerFunc, inner ...message.HandlerMiddleware) *fixture {
	t.Helper()
	f := &fixture{broker: gochannel.NewGoChannel(gochannel.Config{}, nil), deadLetters: &recorder{}}
	f.inbox = newInbox(t, f.broker)
	logger := slog.New(slog.NewTextHandler(&f.log, nil))
	handler, err := publish.Handler(keys, webhook.Work{Handle: handle, Logger: logger, Observer: webhook.Observer{AttemptEnd: func(_ context.Context, a webhook.Attempt) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.attempts = append(f.attempts, a)
	}}})
	require.NoError(t, err)
	poison, err := middleware.PoisonQueueWithFilter(publish.DeadLetters(f.deadLetters), "dead", publish.IsDead)
	require.NoError(t, err)
	retry := middleware.Retry{
		MaxRetries: 4, InitialInterval: time.Second, Multiplier: 2, MaxInterval: 10 * time.Second,
		ShouldRetry: publish.ShouldRetry, Logger: watermill.NewSlogLogger(logger),
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(logger))
	require.NoError(t, err)
	router.AddConsumerHandler("events", "events", f.broker, handler).AddMiddleware(append([]message.HandlerMiddleware{poison, retry.Middleware}, inner...)...)
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	var once sync.Once
	f.stop = func(cause error) {
		once.Do(func() {
			cancel(cause)
			assert.NoError(t, <-ended)
			assert.NoError(t, f.broker.Close())
			synctest.Wait() // the goroutines of the router log when they end
			assert.NotContains(t, f.log.String(), receivertest.Canary)
		})
	}
	t.Cleanup(func() { f.stop(nil) })
	return f
}

// fixedKeys returns the keys of newInbox.
func fixedKeys(t *testing.T) seal.AEAD {
	t.Helper()
	ring, err := receivertest.FixedKeyRing()
	require.NoError(t, err)
	return ring
}

func (f *fixture) accept(t *testing.T, d webhook.Delivery) {
	t.Helper()
	_, err := f.inbox.Accept(t.Context(), d)
	require.NoError(t, err)
}

// made returns the attempts until now.
func (f *fixture) made() []webhook.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.attempts)
}

func (f *fixture) results() (results []webhook.Result) {
	for _, a := range f.made() {
		results = append(results, a.Result)
	}
	return results
}

// later advances the clock by d and waits until all goroutines are blocked.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errHandler = errors.New("failed for " + receivertest.Canary)

func TestHandlerRetriesFailedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Duration
		start := time.Now()
		f := newFixture(t, fixedKeys(t), func(ctx context.Context, _ events.Event) error {
			begun = append(begun, time.Since(start))
			assert.Equal(t, webhook.Handling{Key: delivery(1, "in_1").Key, Attempt: len(begun)}, webhook.HandlingFrom(ctx))
			if len(begun) < 5 {
				return errHandler
			}
			return nil
		})
		f.accept(t, delivery(1, "in_1"))
		later(time.Hour)
		assert.Equal(t, []time.Duration{0, 2 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second}, begun)
		assert.Equal(t, []webhook.Result{"failed", "failed", "failed", "failed", "handled"}, f.results())
		for n, a := range f.made() {
			assert.Equal(t, n+1, a.Number)
			assert.Zero(t, a.RetryIn, "the router decides it")
			assert.Equal(t, delivery(1, "in_1").Body, a.Body)
		}
		assert.Empty(t, f.deadLetters.published())
	})
}

func TestFailedEventsBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	failed := []webhook.Result{"failed", "failed", "failed", "failed", "failed"}
	for name, c := range map[string]struct {
		handle  webhook.HandlerFunc
		reason  string
		results []webhook.Result
	}{
		"all attempts failed": {
			func(context.Context, events.Event) error { return errHandler },
			"webhook event failed: attempt 5: unnamed error: see webhook.WithReason", failed,
		},
		"permanent": {
			func(context.Context, events.Event) error { return webhook.Permanent(errHandler) },
			"webhook event dead: attempt 1: permanent: unnamed error: see webhook.WithReason", []webhook.Result{"dead"},
		},
		"panic": {
			func(context.Context, events.Event) error { panic(receivertest.Canary) },
			"webhook event failed: attempt 5: webhook: panic with a value of type string", failed,
		},
		"timeout": {receivertest.Hold, "webhook event failed: attempt 5: context deadline exceeded", failed},
		"canceled by itself": {
			func(context.Context, events.Event) error { return context.Canceled },
			"webhook event failed: attempt 5: context canceled", failed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, fixedKeys(t), c.handle)
				d := delivery(1, "in_1")
				f.accept(t, d)
				later(time.Hour)
				assert.Equal(t, c.results, f.results())
				require.Len(t, f.deadLetters.published(), 1)
				assert.Equal(t, "dead", f.deadLetters.topic)
				dead := f.deadLetters.published()[0]
				assert.Equal(t, d.Key.String(), dead.Metadata.Get(publish.MetadataKey))
				assert.NotEqual(t, d.Key.String(), dead.UUID, "JetStream would drop a known ID")
				assert.Equal(t, c.reason, dead.Metadata.Get(middleware.ReasonForPoisonedKey))
				assert.Equal(t, "events", dead.Metadata.Get(middleware.PoisonedTopicKey))
				assert.NoError(t, dead.Context().Err(), "a stop must not interrupt the publisher")

				before := dead.UUID
				require.NoError(t, publish.DeadLetters(f.broker).Publish("events", dead))
				assert.Equal(t, before, dead.UUID, "Publish must not change its argument")
				later(time.Hour)
				assert.Equal(t, append(c.results, c.results...), f.results())
				require.Len(t, f.deadLetters.published(), 2)
				assert.NotEqual(t, dead.UUID, f.deadLetters.published()[1].UUID)
				f.stop(nil)
			})
		})
	}
}

// A foreign message becomes a dead letter immediately, and a message without a matching encryption
// key after all attempts.
func TestUnreadableMessagesBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, receivertest.KeyRing(t), receivertest.Succeed)
		other := message.NewMessage("1", nil)
		other.Metadata.Set(publish.MetadataKey, "1")
		require.NoError(t, f.broker.Publish("events", other))
		later(time.Hour)
		assert.Equal(t, []webhook.Result{"dead"}, f.results())
		f.accept(t, delivery(1, "in_1"))
		later(time.Hour)
		assert.Equal(t, []webhook.Result{"dead", "failed", "failed", "failed", "failed", "failed"}, f.results())
		assert.Equal(t, []string{"1", "us/sandbox/evt_1/in_1"}, f.deadLetters.keys())
	})
}

// While the topic of dead letters is unavailable, the broker delivers the event again.
func TestUnpublishedDeadLetterReturnsToBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, fixedKeys(t), func(context.Context, events.Event) error { return errHandler })
		f.deadLetters.fail(assert.AnError)
		f.accept(t, delivery(1, "in_1"))
		later(70 * time.Second)
		require.Len(t, f.made(), 13, "two deliveries with all attempts, and three attempts of the third delivery")
		assert.Equal(t, 1, f.made()[5].Number)
		f.deadLetters.fail(nil)
		later(time.Hour)
		assert.Len(t, f.made(), 15)
		assert.Len(t, f.deadLetters.published(), 1)
	})
}

// A stop is not a failure. An event in a handler and an event that waits for a retry both return to
// the broker, whatever the cause of the stop.
func TestStopReturnsEventsToBroker(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]webhook.HandlerFunc{
		"in a handler": receivertest.Hold,
		"before retry": func(context.Context, events.Event) error { return errHandler },
	} {
		for _, cause := range []error{nil, errors.New("interrupt signal received")} {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, fixedKeys(t), handle)
				f.accept(t, delivery(1, "in_1"))
				later(time.Second)
				f.stop(cause)
				assert.NotContains(t, f.results(), webhook.ResultDead, name)
				assert.LessOrEqual(t, len(f.results()), 1, name)
				assert.Empty(t, f.deadLetters.published(), name)
			})
		}
	}
}

// The package comment warns of Watermill's Deduplicator. It records the key of an event before the
// first attempt, so all later attempts are dropped, and acknowledged.
func TestDeduplicatorLosesEvents(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]webhook.HandlerFunc{
		"failed":      func(context.Context, events.Event) error { return errHandler },
		"interrupted": receivertest.Hold,
	} {
		synctest.Test(t, func(t *testing.T) {
			deduplicator := &middleware.Deduplicator{
				KeyFactory: func(m *message.Message) (string, error) { return m.UUID, nil }, Repository: known{}, Timeout: time.Minute,
			}
			f := newFixture(t, fixedKeys(t), handle, deduplicator.Middleware)
			f.accept(t, delivery(1, "in_1"))
			later(30 * time.Second)
			f.stop(nil)
			assert.Len(t, f.results(), 1, name)
			assert.Empty(t, f.deadLetters.published(), name)

			f = newFixture(t, fixedKeys(t), receivertest.Succeed, deduplicator.Middleware)
			f.accept(t, delivery(1, "in_1")) // the broker redelivers
			later(time.Hour)
			assert.Empty(t, f.results(), name)
			f.stop(nil)
		})
	}
}

// known is a store for a Deduplicator.
type known map[string]bool

func (k known) IsDuplicate(_ context.Context, key string) (bool, error) {
	before := k[key]
	k[key] = true
	return before, nil
}

func TestHandlerChecksArguments(t *testing.T) {
	t.Parallel()
	keys := fixedKeys(t)
	for _, c := range []struct {
		keys  seal.AEAD
		work  webhook.Work
		field string
	}{
		{nil, webhook.Work{Handle: receivertest.Succeed}, "publish.Handler keys"},
		{keys, webhook.Work{}, "webhook.Work.Handle"},
		{keys, webhook.Work{Handle: receivertest.Succeed, Order: webhook.ByObject}, "publish.Handler work"},
		{keys, webhook.Work{Handle: receivertest.Succeed, Stale: webhook.StalePolicyReport}, "publish.Handler work"},
		{keys, webhook.Work{Handle: receivertest.Succeed, Workers: 1}, "publish.Handler work"},
		{keys, webhook.Work{Handle: receivertest.Succeed, Retry: webhook.RetryPolicy{MaxAttempts: 5}}, "publish.Handler work"},
	} {
		var wrong *api.ArgumentError
		_, err := publish.Handler(c.keys, c.work)
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, c.field, wrong.Field)
	}
}
