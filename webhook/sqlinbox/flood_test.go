package sqlinbox_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
// is accepted (alone/s), and the first by the second (ratio). MB is the size of
// the file once everything has been handled, times-vacuumed how often its content
// would fit into that, and wal-MB the size of the write-ahead log at its largest.
func BenchmarkFlood(b *testing.B) {
	b.Run("unordered", func(b *testing.B) { flood(b, nil) })
	b.Run("in order", func(b *testing.B) { flood(b, webhook.ByObject) })
}

func flood(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey) {
	var handled atomic.Int64
	path := filepath.Join(b.TempDir(), "inbox.db")
	changed := make(chan struct{}, 1)
	inbox, err := sqlinbox.Open(path, sqlinbox.Config{
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
	largest := watchLog(b, path+"-wal")
	until := func(n int64) {
		for handled.Load() < n {
			<-changed
		}
	}
	alone := handleAlone(b, order, max(b.N/4, 1))
	b.ResetTimer()
	took := acceptAll(b, inbox, b.N)
	flooded := b.Elapsed().Seconds()
	meanwhile := float64(handled.Load()) / flooded
	until(int64(b.N))
	b.StopTimer()
	shrinking := time.Now()
	inbox.AwaitShrunk(b)
	b.ReportMetric(time.Since(shrinking).Seconds(), "shrink-s")
	log := largest()
	require.NoError(b, inbox.Close(context.Background()))
	size, vacuumed := fileSize(b, path), vacuumedSize(b, path)
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/flooded, "accepts/s")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(meanwhile, "handled/s")
	b.ReportMetric(alone, "alone/s")
	b.ReportMetric(meanwhile/alone, "ratio")
	b.ReportMetric(size/1e6, "MB")
	b.ReportMetric(size/vacuumed, "times-vacuumed")
	b.ReportMetric(log/1e6, "wal-MB")
	b.ReportMetric(0, "ns/op")
}

// acceptAll brings n events and returns how long each accept took.
func acceptAll(b *testing.B, inbox webhook.Inbox, n int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, n)
	var next atomic.Int64
	var group sync.WaitGroup
	for range receivertest.Senders {
		group.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				d := receivertest.NewDelivery()
				start := time.Now()
				if _, err := inbox.Accept(context.Background(), d); err != nil {
					b.Error(err)
					return
				}
				took[i-1] = time.Since(start)
			}
		})
	}
	group.Wait()
	return took
}

// handleAlone returns how many events of a backlog of n are handled in a second.
func handleAlone(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey, n int) float64 {
	b.Helper()
	return float64(n) / backlogTime(b, webhook.Work{Order: order, Handle: receivertest.Succeed}, n).Seconds()
}

func fileSize(b *testing.B, path string) float64 {
	b.Helper()
	info, err := os.Stat(path)
	require.NoError(b, err)
	return float64(info.Size())
}

func vacuumedSize(b *testing.B, path string) float64 {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	require.NoError(b, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(b.Context(), "VACUUM INTO ?", path+".vacuumed")
	require.NoError(b, err)
	return fileSize(b, path+".vacuumed")
}

// watchLog looks at the size of a file from now on, and returns its largest.
func watchLog(b *testing.B, path string) (largest func() float64) {
	b.Helper()
	stop, result := make(chan struct{}), make(chan float64, 1)
	go func() {
		size := int64(0)
		for {
			if info, err := os.Stat(path); err == nil {
				size = max(size, info.Size())
			}
			select {
			case <-stop:
				result <- float64(size)
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-result
	}
}
