package sqlinbox_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// BenchmarkFlood accepts b.N events as fast as [receivertest.Senders] can bring
// them, while handlers that do nothing work them off:
//
//	go test -run '^$' -bench Flood -benchtime 200000x -timeout 1h
//
// It reports accepts per second and the 99th percentile of one, how many events
// were handled per second meanwhile, how many are in the same inbox when nothing
// is accepted (alone/s), and the first by the second (ratio).
func BenchmarkFlood(b *testing.B) {
	b.Run("unordered", func(b *testing.B) { flood(b, nil) })
	b.Run("in order", func(b *testing.B) { flood(b, webhook.ByObject) })
}

func flood(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey) {
	var handled atomic.Int64
	changed := make(chan struct{}, 1)
	inbox, err := sqlinbox.Open(newPath(b), sqlinbox.Config{
		Seal: receivertest.KeyRing(b),
		Work: webhook.Work{Order: order, Handle: receivertest.Succeed, Observer: webhook.Observer{AttemptEnd: func(context.Context, webhook.Attempt) {
			handled.Add(1)
			select {
			case changed <- struct{}{}:
			default:
			}
		}}},
	})
	require.NoError(b, err)
	until := func(n int64) {
		for handled.Load() < n {
			<-changed
		}
	}
	alone := handleAlone(b, order, max(b.N/4, 1))
	b.ResetTimer()
	took := receivertest.Fill(b, inbox, b.N)
	flooded := b.Elapsed().Seconds()
	meanwhile := float64(handled.Load()) / flooded
	until(int64(b.N))
	b.StopTimer()
	require.NoError(b, inbox.Close(context.Background()))
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/flooded, "accepts/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(meanwhile, "handled/s")
	b.ReportMetric(alone, "alone/s")
	b.ReportMetric(meanwhile/alone, "ratio")
	b.ReportMetric(0, "ns/op")
}

// handleAlone returns how many events of a backlog of n are handled in a second.
func handleAlone(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey, n int) float64 {
	b.Helper()
	return float64(n) / backlogTime(b, webhook.Work{Order: order, Handle: receivertest.Succeed}, n).Seconds()
}
