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
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// fixture is an inbox and its consumer, on an in-memory broker that redelivers unacknowledged
// messages.
type fixture struct {
	inbox       *publish.Inbox
	consumer    *publish.Consumer
	broker      *gochannel.GoChannel
	deadLetters *recorder
	log         bytes.Buffer // of Watermill and of the worker
	stop        func()

	mu       sync.Mutex
	attempts []webhook.Attempt
}

func newFixture(t *testing.T, handle webhook.HandlerFunc, change ...func(*publish.ConsumerConfig)) *fixture {
	t.Helper()
	return newFixtureOn(t, gochannel.Config{}, handle, change...)
}

func newFixtureOn(t *testing.T, broker gochannel.Config, handle webhook.HandlerFunc, change ...func(*publish.ConsumerConfig)) *fixture {
	t.Helper()
	f := &fixture{broker: gochannel.NewGoChannel(broker, nil), deadLetters: &recorder{}}
	f.inbox = newInbox(t, f.broker)
	ring, err := receivertest.FixedKeyRing()
	require.NoError(t, err)
	logger := slog.New(slog.NewTextHandler(&f.log, nil))
	c := publish.ConsumerConfig{
		Subscriber: f.broker, Topic: "events", DeadLetters: f.deadLetters, DeadLetterTopic: "dead", Seal: ring,
		Work: webhook.Work{Handle: handle, Workers: 1, Logger: logger, Observer: webhook.Observer{AttemptEnd: func(_ context.Context, a webhook.Attempt) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.attempts = append(f.attempts, a)
		}}},
	}
	for _, apply := range change {
		apply(&c)
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(logger))
	require.NoError(t, err)
	f.consumer, err = publish.Consume(router, c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- router.Run(ctx) }()
	<-router.Running()
	f.stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-ended)
		assert.NoError(t, f.broker.Close())
	})
	t.Cleanup(f.stop)
	return f
}

func (f *fixture) accept(t *testing.T, deliveries ...webhook.Delivery) {
	t.Helper()
	for _, d := range deliveries {
		_, err := f.inbox.Accept(t.Context(), d)
		require.NoError(t, err)
	}
}

func (f *fixture) results() (results []webhook.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.attempts {
		results = append(results, a.Result)
	}
	return results
}

func (f *fixture) count(result webhook.Result) (n int) {
	for _, r := range f.results() {
		if r == result {
			n++
		}
	}
	return n
}

func (f *fixture) last() webhook.Attempt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts[len(f.attempts)-1]
}

// later advances the clock by d and waits until all goroutines are blocked.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errHandler = errors.New("failed for " + receivertest.Canary)

func TestConsumerRetriesFailedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var begun []time.Duration
		start := time.Now()
		f := newFixture(t, func(ctx context.Context, _ events.Event) error {
			begun = append(begun, time.Since(start))
			assert.Equal(t, len(begun), webhook.HandlingFrom(ctx).Attempt)
			if len(begun) < 5 {
				return errHandler
			}
			return nil
		})
		f.accept(t, delivery(1, "in_1"))
		later(time.Hour)
		require.Len(t, begun, 5)
		for n, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second} {
			took := begun[n+1] - begun[n]
			assert.LessOrEqual(t, took, wait)
			assert.GreaterOrEqual(t, took, wait/2)
		}
		assert.Equal(t, []webhook.Result{"failed", "failed", "failed", "failed", "handled"}, f.results())
		assert.Empty(t, f.deadLetters.published())
		f.stop()
		synctest.Wait() // the goroutines of the router log when they end
		assert.NotContains(t, f.log.String(), receivertest.Canary)
	})
}

func TestConsumerPublishesDeadLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle  webhook.HandlerFunc
		reason  string
		results []webhook.Result
	}{
		"all attempts failed": {
			func(context.Context, events.Event) error { return errHandler },
			"webhook event dead: attempt 5: unnamed error: see webhook.WithReason",
			[]webhook.Result{"failed", "failed", "failed", "failed", "dead"},
		},
		"permanent": {
			func(context.Context, events.Event) error { return webhook.Permanent(errHandler) },
			"webhook event dead: attempt 1: permanent: unnamed error: see webhook.WithReason",
			[]webhook.Result{"dead"},
		},
		"panic": {
			func(context.Context, events.Event) error { panic(receivertest.Canary) },
			"webhook event dead: attempt 5: webhook: panic with a value of type string",
			[]webhook.Result{"failed", "failed", "failed", "failed", "dead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, c.handle)
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

				again := publish.Replay(dead)
				assert.NotEqual(t, dead.UUID, again.UUID, "JetStream would drop a known ID")
				assert.Empty(t, again.Metadata.Get(middleware.ReasonForPoisonedKey))
				require.NoError(t, f.broker.Publish("events", again))
				later(time.Hour)
				assert.Equal(t, append(c.results, c.results...), f.results())
				require.Len(t, f.deadLetters.published(), 2)
				assert.NotEqual(t, dead.UUID, f.deadLetters.published()[1].UUID)
				f.stop()
				synctest.Wait() // the goroutines of the router log when they end
				assert.NotContains(t, f.log.String(), receivertest.Canary)
			})
		})
	}
}

// A foreign message becomes a dead letter immediately, and a message without a matching encryption
// key after all attempts.
func TestUnreadableMessagesBecomeDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, receivertest.Succeed, func(c *publish.ConsumerConfig) { c.Seal = receivertest.KeyRing(t) })
		other := message.NewMessage("1", nil)
		other.Metadata.Set(publish.MetadataKey, "1")
		require.NoError(t, f.broker.Publish("events", other))
		later(time.Hour)
		assert.Equal(t, []webhook.Result{"dead"}, f.results())
		f.accept(t, delivery(1, "in_1"))
		later(time.Hour)
		assert.Equal(t, []webhook.Result{"dead", "failed", "failed", "failed", "failed", "dead"}, f.results())
		assert.Equal(t, []string{"1", "us/sandbox/evt_1/in_1"}, f.deadLetters.keys())
	})
}

// While the topic of dead letters is unavailable, the broker delivers the event again. The
// consumer then publishes the dead letter again after a growing backoff. It does not call
// the handler again.
func TestConsumerRepublishesDeadLetter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"permanent":           {webhook.Permanent(errHandler), 1},
		"all attempts failed": {errHandler, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				f := newFixture(t, func(context.Context, events.Event) error { calls++; return c.err })
				f.deadLetters.fail(assert.AnError)
				f.accept(t, delivery(1, "in_1"))
				later(time.Hour)
				assert.Equal(t, c.calls, calls)
				assert.Equal(t, 1, f.consumer.Stats().Unrecorded)
				lost := f.count(webhook.ResultLost)
				assert.Less(t, lost, 800, "the backoff must grow to 5 to 10 seconds")
				assert.Greater(t, lost, 300)

				f.deadLetters.fail(nil)
				later(time.Minute)
				assert.Equal(t, c.calls, calls)
				require.Len(t, f.deadLetters.published(), 1)
				assert.Equal(t, webhook.ResultDead, f.last().Result)
				assert.Equal(t, c.calls, f.last().Number)
				require.ErrorIs(t, f.last().Err, errHandler)
				assert.Zero(t, f.consumer.Stats().Unrecorded)
				f.stop()
				synctest.Wait() // the goroutines of the router log when they end
				assert.NotContains(t, f.log.String(), receivertest.Canary)
			})
		})
	}
}

// A panic of the publisher counts as a failure.
func TestConsumerSurvivesPublisherPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		f := newFixture(t, func(context.Context, events.Event) error { calls++; return webhook.Permanent(errHandler) },
			func(c *publish.ConsumerConfig) { c.DeadLetters = panicking{} })
		f.accept(t, delivery(1, "in_1"))
		later(time.Minute)
		assert.Equal(t, 1, calls)
		assert.Less(t, f.count(webhook.ResultLost), 20)
	})
}

// Err reports a subscription that closes by itself, but logs no failure if the program closes it.
func TestConsumerReportsClosedSubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		two := func(c *publish.ConsumerConfig) { c.Work.Workers = 2 }
		f := newFixture(t, receivertest.Succeed, two)
		require.NoError(t, f.consumer.Err())
		assert.Equal(t, publish.Stats{Subscriptions: 2, Open: 2}, f.consumer.Stats())
		require.NoError(t, f.broker.Close())
		synctest.Wait()
		require.ErrorIs(t, f.consumer.Err(), publish.ErrSubscriptionClosed)
		assert.Contains(t, f.log.String(), "webhook consumer stopped")
		assert.Equal(t, publish.Stats{Subscriptions: 2}, f.consumer.Stats())

		f = newFixture(t, receivertest.Succeed, two)
		f.stop()
		synctest.Wait()
		require.ErrorIs(t, f.consumer.Err(), publish.ErrNotSubscribed)
		assert.NotContains(t, f.log.String(), "webhook consumer stopped")
	})
}

// If the router closes, it closes the subscriber that several consumers share.
func TestRouterClosesSharedSubscriber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := gochannel.NewGoChannel(gochannel.Config{}, nil)
		router, err := message.NewRouter(message.RouterConfig{}, nil)
		require.NoError(t, err)
		var consumers []*publish.Consumer
		for _, topic := range []string{"events", "others"} {
			consumer, err := publish.Consume(router, publish.ConsumerConfig{
				Subscriber: broker, Topic: topic, DeadLetters: &recorder{}, DeadLetterTopic: "dead",
				Seal: receivertest.KeyRing(t), Work: webhook.Work{Handle: receivertest.Succeed},
			})
			require.NoError(t, err)
			require.ErrorIs(t, consumer.Err(), publish.ErrNotSubscribed)
			consumers = append(consumers, consumer)
		}
		go func() { assert.NoError(t, router.Run(context.Background())) }()
		<-router.Running()
		for _, consumer := range consumers {
			require.NoError(t, consumer.Err())
		}
		require.NoError(t, router.Close())
		synctest.Wait()
		for _, consumer := range consumers {
			require.ErrorIs(t, consumer.Err(), publish.ErrNotSubscribed)
		}
	})
}

// Both the router and the consumer report a failing subscriber, unless the program stops.
func TestConsumerReportsFailedSubscribe(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		var log bytes.Buffer
		router, err := message.NewRouter(message.RouterConfig{}, nil)
		require.NoError(t, err)
		consumer, err := publish.Consume(router, publish.ConsumerConfig{
			Subscriber: unavailable{}, Topic: "events", DeadLetters: &recorder{}, DeadLetterTopic: "dead",
			Seal: receivertest.KeyRing(t), Work: webhook.Work{Handle: receivertest.Succeed, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		if stopped {
			cancel()
		}
		require.ErrorIs(t, router.Run(ctx), assert.AnError)
		cancel()
		if stopped {
			require.ErrorIs(t, consumer.Err(), publish.ErrNotSubscribed)
			assert.NotContains(t, log.String(), "level=ERROR")
		} else {
			require.ErrorIs(t, consumer.Err(), assert.AnError)
			assert.Contains(t, log.String(), "level=ERROR")
		}
	}
}

type unavailable struct{ message.Subscriber }

func (unavailable) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return nil, assert.AnError
}

// A stop is not a failure. An event in a handler and an event that waits for a retry both return to
// the broker.
func TestStopReturnsEventsToBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, receivertest.Hold)
		f.accept(t, delivery(1, "in_1"))
		later(time.Second)
		f.stop()
		assert.Equal(t, []webhook.Result{"returned"}, slices.Compact(f.results()), "the in-memory broker delivers until it is closed")
		assert.Empty(t, f.deadLetters.published())

		f = newFixture(t, func(context.Context, events.Event) error { return errHandler })
		f.accept(t, delivery(1, "in_1"))
		later(time.Second / 10)
		f.stop()
		synctest.Wait() // the goroutines of the router log when they end
		assert.NotContains(t, f.results(), webhook.ResultDead)
		assert.Empty(t, f.deadLetters.published())
		assert.NotContains(t, f.log.String(), receivertest.Canary)
	})
}

func TestConsumeChecksConfig(t *testing.T) {
	t.Parallel()
	router, err := message.NewRouter(message.RouterConfig{}, nil)
	require.NoError(t, err)
	whole := publish.ConsumerConfig{
		Subscriber: gochannel.NewGoChannel(gochannel.Config{}, nil), Topic: "events", DeadLetters: &recorder{}, DeadLetterTopic: "dead",
		Seal: receivertest.KeyRing(t), Work: webhook.Work{Handle: receivertest.Succeed},
	}
	for field, change := range map[string]func(*publish.ConsumerConfig){
		"Subscriber":      func(c *publish.ConsumerConfig) { c.Subscriber = nil },
		"Topic":           func(c *publish.ConsumerConfig) { c.Topic = "" },
		"DeadLetters":     func(c *publish.ConsumerConfig) { c.DeadLetters = nil },
		"DeadLetterTopic": func(c *publish.ConsumerConfig) { c.DeadLetterTopic = "" },
		"Seal":            func(c *publish.ConsumerConfig) { c.Seal = nil },
		"Work":            func(c *publish.ConsumerConfig) { c.Work.Order = webhook.ByObject },
	} {
		c := whole
		change(&c)
		var wrong *api.ArgumentError
		_, err := publish.Consume(router, c)
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, "publish.ConsumerConfig."+field, wrong.Field)
	}
	_, err = publish.Consume(nil, whole)
	require.Error(t, err)
	c := whole
	c.Work.Handle = nil
	_, err = publish.Consume(router, c)
	require.Error(t, err)
	c = whole
	c.Work.Workers, c.Name = 3, "billing"
	_, err = publish.Consume(router, c)
	require.NoError(t, err)
	var names []string
	for name := range router.Handlers() {
		names = append(names, name)
	}
	assert.ElementsMatch(t, []string{"billing", "billing-2", "billing-3"}, names)
}

func TestMaxHandlingIncludesRetries(t *testing.T) {
	t.Parallel()
	work, err := webhook.Work{Handle: receivertest.Succeed}.WithDefaults()
	require.NoError(t, err)
	assert.Equal(t, 5*work.HandlerTimeout+(1+2+4+8)*time.Second+10*time.Second, publish.MaxHandling(webhook.Work{}))
	assert.Equal(t, 13*time.Second, publish.MaxHandling(webhook.Work{
		HandlerTimeout: time.Second, Retry: webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Minute, MaxBackOff: time.Second},
	}))
}
