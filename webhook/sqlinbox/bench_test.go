package sqlinbox_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/enginetest"
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

// BenchmarkDead measures an operations page with dead letters.
func BenchmarkDead(b *testing.B) {
	enginetest.BenchmarkDead(b, func(b *testing.B, work webhook.Work) engine.Engine {
		return open(b, newPath(b), sqlinbox.Config{Seal: receivertest.KeyRing(b), Work: work})
	})
}
