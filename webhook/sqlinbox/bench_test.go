package sqlinbox_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// BenchmarkAcceptHTTP measures durable accepts through HTTP, including the signature, with 64
// concurrent deliveries. It compares them with a table in which every request commits its own
// row, and with HTTP without storage. It reports accepts per second and the 99th percentile of
// a request in milliseconds.
func BenchmarkAcceptHTTP(b *testing.B) {
	b.Run("nothing stored", func(b *testing.B) { receivertest.BenchmarkHTTP(b, receivertest.Nothing{}) })
	b.Run("lone commits", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newLoneTable(b)) })
	b.Run("Inbox", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, nil)) })
	b.Run("Inbox in order", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, webhook.ByObject)) })
}

// loneTable is a simple hand-written inbox: a table, and a statement for each event.
type loneTable struct{ insert *sql.Stmt }

func newLoneTable(b *testing.B) loneTable {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "lone.db")+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // SQLite has one writer, so more connections would only collide
	_, err = db.ExecContext(b.Context(), "CREATE TABLE inbox (key TEXT PRIMARY KEY, body BLOB NOT NULL, state INTEGER NOT NULL)")
	require.NoError(b, err)
	insert, err := db.PrepareContext(b.Context(), "INSERT INTO inbox (key, body, state) VALUES (?, ?, 0) ON CONFLICT DO NOTHING")
	require.NoError(b, err)
	return loneTable{insert}
}

func (l loneTable) Accept(_ context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	result, err := l.insert.ExecContext(context.Background(), d.Key.String(), d.Body)
	if err != nil {
		return webhook.Receipt{}, err
	}
	n, err := result.RowsAffected()
	return webhook.Receipt{Duplicate: n == 0}, err
}

// newBenchInbox opens an inbox whose only worker is busy with one event, so that the benchmark
// measures accepts alone.
func newBenchInbox(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey) *sqlinbox.Inbox {
	b.Helper()
	inbox, err := sqlinbox.Open(filepath.Join(b.TempDir(), "inbox.db"), sqlinbox.Config{
		Seal: receivertest.KeyRing(b),
		Work: webhook.Work{
			Workers: 1, Order: order, HandlerTimeout: time.Hour,
			Handle: receivertest.Hold,
		},
	})
	require.NoError(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = inbox.Close(ctx)
	})
	return inbox
}

// BenchmarkAccept measures one accept at a time, the latency of a single delivery.
func BenchmarkAccept(b *testing.B) {
	b.Run("lone commits", func(b *testing.B) { receivertest.BenchmarkLonely(b, newLoneTable(b)) })
	b.Run("Inbox", func(b *testing.B) { receivertest.BenchmarkLonely(b, newBenchInbox(b, nil)) })
}

// backlogTime accepts n events without handling them, and returns the time to handle the
// backlog.
func backlogTime(b *testing.B, work webhook.Work, n int) time.Duration {
	b.Helper()
	var handled atomic.Int64
	done := make(chan struct{})
	path, keys := filepath.Join(b.TempDir(), "backlog.db"), receivertest.KeyRing(b)
	work.Observer.AttemptEnd = func(context.Context, webhook.Attempt) {
		if handled.Add(1) == int64(n) {
			close(done)
		}
	}
	waiting := work
	waiting.Workers, waiting.Handle, waiting.Observer.AttemptEnd = 1, receivertest.Hold, nil
	inbox, err := sqlinbox.Open(path, sqlinbox.Config{Work: waiting, Seal: keys})
	require.NoError(b, err)
	receivertest.Fill(b, inbox, n)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(b, inbox.Close(ctx))
	start := time.Now()
	inbox, err = sqlinbox.Open(path, sqlinbox.Config{Work: work, Seal: keys})
	require.NoError(b, err)
	<-done
	took := time.Since(start)
	require.NoError(b, inbox.Close(context.Background()))
	return took
}

// BenchmarkFlood accepts b.N events as fast as [receivertest.Senders] can send them, while
// handlers without work process them:
//
//	go test -run '^$' -bench Flood -benchtime 200000x -timeout 1h
//
// It reports accepts per second and their 99th percentile, the number of events handled per
// second during the flood, the same number without accepts (alone/s), and the ratio of the two
// (ratio).
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

// handleAlone returns the handled events per second for a backlog of n events.
func handleAlone(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey, n int) float64 {
	b.Helper()
	return float64(n) / backlogTime(b, webhook.Work{Order: order, Handle: receivertest.Succeed}, n).Seconds()
}

// BenchmarkDead measures an operations page with dead letters.
func BenchmarkDead(b *testing.B) {
	enginetest.BenchmarkDead(b, func(b *testing.B, work webhook.Work) engine.Engine {
		return open(b, newPath(b), sqlinbox.Config{Seal: receivertest.KeyRing(b), Work: work})
	})
}
