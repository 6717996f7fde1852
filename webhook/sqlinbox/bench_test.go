package sqlinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// BenchmarkAcceptHTTP measures durable accepts through HTTP, signature and all,
// with 64 deliveries under way: beside what a table costs where every request
// commits its own row, and what HTTP costs without any storage. It reports
// accepts per second and the 99th percentile of a request in milliseconds.
func BenchmarkAcceptHTTP(b *testing.B) {
	b.Run("nothing stored", func(b *testing.B) { receivertest.BenchmarkHTTP(b, receivertest.Nothing{}) })
	b.Run("lone commits", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newLoneTable(b)) })
	b.Run("Inbox", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, nil)) })
	b.Run("Inbox in order", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, webhook.ByObject)) })
}

// loneTable is what one writes by hand: a table, and a statement for each event.
type loneTable struct{ insert *sql.Stmt }

func newLoneTable(b *testing.B) loneTable {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "lone.db")+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only collide
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

// newBenchInbox makes an inbox whose workers are kept busy by one event each, so
// that accepting is all that is measured.
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

// BenchmarkAccept measures one accept after the other: what a lonely delivery
// waits for.
func BenchmarkAccept(b *testing.B) {
	b.Run("lone commits", func(b *testing.B) { receivertest.BenchmarkLonely(b, newLoneTable(b)) })
	b.Run("Inbox", func(b *testing.B) { receivertest.BenchmarkLonely(b, newBenchInbox(b, nil)) })
}

// BenchmarkHandle measures how fast a backlog is worked off by handlers that do
// nothing.
func BenchmarkHandle(b *testing.B) {
	for _, workers := range []int{webhook.DefaultWorkers, 64} {
		b.Run(fmt.Sprint(workers, " workers"), func(b *testing.B) { handleBacklog(b, workers) })
	}
}

func handleBacklog(b *testing.B, workers int) {
	work := webhook.Work{Workers: workers, Order: webhook.ByObject, Handle: receivertest.Succeed}
	took := backlogTime(b, work, b.N)
	b.ReportMetric(float64(b.N)/took.Seconds(), "events/s")
	b.ReportMetric(0, "ns/op") // that of the accepts before is in it
}

// backlogTime accepts n events while nothing is handled, and returns how long it
// takes to work them off.
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

// BenchmarkKnownKeys measures accepts beside the keys of a month, and of none: of events
// that are new, and of such as were handled. It reports the size of the file, and how long
// opening it takes.
func BenchmarkKnownKeys(b *testing.B) {
	for _, keys := range []int{0, testsize.Of(30_000, 3_000_000)} {
		path := filepath.Join(b.TempDir(), "inbox.db")
		config := sqlinbox.Config{
			Seal: receivertest.KeyRing(b), Work: webhook.Work{Workers: 1, HandlerTimeout: time.Hour, Handle: receivertest.Hold},
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		inbox, err := sqlinbox.Open(path, config)
		require.NoError(b, err)
		known := []webhook.Delivery{receivertest.Accept(b, inbox)}
		require.NoError(b, inbox.Close(ctx))
		fillKeys(b, path, keys, &known)
		begin := time.Now()
		inbox, err = sqlinbox.Open(path, config)
		require.NoError(b, err)
		opened := time.Since(begin)
		file, err := os.Stat(path)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("%d keys/new", keys), func(b *testing.B) {
			receivertest.BenchmarkLonely(b, inbox)
			b.ReportMetric(float64(file.Size())/(1<<20), "MB")
			b.ReportMetric(float64(opened)/float64(time.Millisecond), "open-ms")
		})
		b.Run(fmt.Sprintf("%d keys/known", keys), func(b *testing.B) {
			n := 0
			for b.Loop() {
				receipt, err := inbox.Accept(b.Context(), known[n%len(known)])
				require.NoError(b, err)
				require.True(b, receipt.Duplicate)
				n++
			}
		})
		_ = inbox.Close(ctx)
	}
}

// fillKeys puts so many keys of handled events into a file, and adds some of them to known.
// They are as long as those of the platform, and in no order.
func fillKeys(b *testing.B, path string, keys int, known *[]webhook.Delivery) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	_, err = db.ExecContext(b.Context(), `WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
		INSERT INTO dispensary_inbox (key, type, clinic_id, created_at, received_at, order_at, state, due_at, attempts)
		SELECT 'us/sandbox/' || lower(hex(randomblob(16))) || '/in_1', 'patient.updated', 'cl_1', ?2, ?2, ?2, 6, ?2 + n, 1 FROM numbers WHERE ?1 > 0`,
		keys, time.Now().UnixMicro())
	require.NoError(b, err)
	rows, err := db.QueryContext(b.Context(), "SELECT key FROM dispensary_inbox WHERE state = 6 AND seq % ? = 0", max(keys/1000, 1))
	require.NoError(b, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		require.NoError(b, rows.Scan(&text))
		event := receivertest.NewDelivery()
		require.NoError(b, event.Key.UnmarshalText([]byte(text)))
		*known = append(*known, event)
	}
	require.NoError(b, rows.Err())
}
