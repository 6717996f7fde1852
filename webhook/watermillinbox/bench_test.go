package watermillinbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// BenchmarkAcceptHTTP measures accepts through HTTP, signature and all, with 64
// deliveries under way: beside what a bare publish of each event costs, which
// recognises no duplicates and puts patients in a queue, and what HTTP costs
// without any storage. It reports accepts per second and the 99th percentile of a
// request in milliseconds.
func BenchmarkAcceptHTTP(b *testing.B) {
	b.Run("nothing stored", func(b *testing.B) { receivertest.BenchmarkHTTP(b, receivertest.Nothing) })
	for _, name := range []string{"nats", "rabbitmq", "redis"} {
		b.Run(name+"/bare publish", func(b *testing.B) {
			r := brokers[name](b)
			publisher, subscriber, err := r.pubsub()
			require.NoError(b, err)
			r.closers = append(r.closers, publisher.Close, subscriber.Close)
			_, err = subscriber.Subscribe(context.Background(), r.topic) // makes the queue
			require.NoError(b, err)
			receivertest.BenchmarkHTTP(b, receivertest.InboxFunc(func(d webhook.Delivery) error {
				return publisher.Publish(r.topic, message.NewMessage(watermill.NewUUID(), d.Body))
			}))
		})
		b.Run(name+"/Inbox", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, brokers[name](b), nil)) })
		b.Run(name+"/Inbox in order", func(b *testing.B) {
			receivertest.BenchmarkHTTP(b, newBenchInbox(b, brokers[name](b), webhook.ByObject))
		})
	}
}

// newBenchInbox makes an inbox whose only worker is kept busy by one event, so that
// accepting is all that is measured.
func newBenchInbox(b *testing.B, r *rig, order webhook.SubjectFunc) *watermillinbox.Inbox {
	b.Helper()
	inbox, _, _ := r.start(b, receivertest.Hold, func(c *watermillinbox.Config) {
		c.Work.Workers, c.Work.Order, c.Work.HandlerTimeout, c.Lease = 1, order, time.Hour, time.Minute
	})
	return inbox
}

// BenchmarkHandle measures how fast a backlog is worked off by handlers that do
// nothing.
func BenchmarkHandle(b *testing.B) {
	for _, name := range []string{"nats", "rabbitmq", "redis"} {
		for order, by := range map[string]webhook.SubjectFunc{"alone": nil, "in order": webhook.ByObject} {
			b.Run(name+"/"+order, func(b *testing.B) { handleBacklog(b, brokers[name](b), by) })
		}
	}
}

func handleBacklog(b *testing.B, r *rig, order webhook.SubjectFunc) {
	gate, done := make(chan struct{}), make(chan struct{})
	var handled atomic.Int64
	total := int64(b.N)
	inbox, _, _ := r.start(b, func(context.Context, events.Event) error {
		<-gate
		return nil
	}, func(c *watermillinbox.Config) {
		c.Work.Order, c.Work.Workers, c.Lease, c.Subscriptions = order, 16, time.Minute, 4
		c.Work.Observe = func(context.Context, webhook.Attempt) {
			if handled.Add(1) == total {
				close(done)
			}
		}
	})
	receivertest.Fill(b, inbox, b.N)
	b.ResetTimer()
	close(gate)
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
