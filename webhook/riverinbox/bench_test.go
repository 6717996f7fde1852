package riverinbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// BenchmarkAcceptHTTP measures durable accepts through HTTP, signature and all,
// with 64 deliveries under way: beside what one writes by hand with River, a
// transaction for each event, and what HTTP costs without any storage. It reports
// accepts per second and the 99th percentile of a request in milliseconds.
func BenchmarkAcceptHTTP(b *testing.B) {
	b.Run("nothing stored", func(b *testing.B) { receivertest.BenchmarkHTTP(b, receivertest.Nothing{}) })
	b.Run("InsertTx each", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newByHand(b)) })
	b.Run("Inbox", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, nil)) })
	b.Run("Inbox in order", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newBenchInbox(b, webhook.ByObject)) })
}

// benchPool is for as many accepts as run at a time on two cores; with more
// connections the inserts by hand become slower.
func benchPool(b *testing.B, d database) *pgxpool.Pool {
	b.Helper()
	config, err := pgxpool.ParseConfig(d.address)
	require.NoError(b, err)
	config.ConnConfig.RuntimeParams["search_path"] = d.schema
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	return pool
}

// byHand is what one writes by hand: a table, a job, and a transaction for each
// event.
type byHand struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

type byHandArgs struct {
	Key string `json:"key"`
}

func (byHandArgs) Kind() string { return "by_hand" }

func newByHand(b *testing.B) *byHand {
	b.Helper()
	d := newDatabase(b)
	pool := benchPool(b, d)
	require.NoError(b, riverinbox.MigrateRiver(b.Context(), pool, d.tables()))
	_, err := pool.Exec(b.Context(), "CREATE TABLE inbox (key text PRIMARY KEY, body bytea NOT NULL, state smallint NOT NULL)")
	require.NoError(b, err)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	require.NoError(b, err)
	return &byHand{pool, client}
}

func (h *byHand) Accept(_ context.Context, d webhook.Delivery) (receipt webhook.Receipt, err error) {
	ctx := context.Background()
	return receipt, pgx.BeginFunc(ctx, h.pool, func(tx pgx.Tx) error {
		key := d.Key.String()
		tag, err := tx.Exec(ctx, "INSERT INTO inbox (key, body, state) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", key, d.Body)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = h.client.InsertTx(ctx, tx, byHandArgs{key}, nil)
		return err
	})
}

// newBenchInbox makes an inbox that only accepts.
func newBenchInbox(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey) *riverinbox.Inbox {
	b.Helper()
	d := newDatabase(b)
	pool := benchPool(b, d)
	d.migrate(b, pool)
	inbox, err := riverinbox.New(b.Context(), pool, riverinbox.Config{
		Seal: receivertest.KeyRing(b), Tables: d.tables(), Work: webhook.Work{Handle: receivertest.Succeed, Order: order}, Lease: time.Hour,
	})
	require.NoError(b, err)
	b.Cleanup(func() { _ = inbox.Close(context.Background()) })
	return inbox
}

// BenchmarkAccept measures one accept after the other: what a lonely delivery
// waits for.
func BenchmarkAccept(b *testing.B) {
	b.Run("InsertTx each", func(b *testing.B) { receivertest.BenchmarkLonely(b, newByHand(b)) })
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
	d := newDatabase(b)
	pool := benchPool(b, d)
	c := riverinbox.Config{Seal: receivertest.KeyRing(b), Tables: d.tables()}
	var handled atomic.Int64
	done := make(chan struct{})
	c.Work = webhook.Work{
		Workers: workers, Order: webhook.ByObject,
		Handle: receivertest.Succeed,
		Observer: webhook.Observer{AttemptEnd: func(context.Context, webhook.Attempt) {
			if handled.Add(1) == int64(b.N) {
				close(done)
			}
		}},
	}
	d.migrate(b, pool)
	waiting, err := riverinbox.New(b.Context(), pool, c)
	require.NoError(b, err)
	receivertest.Fill(b, waiting, b.N)
	require.NoError(b, waiting.Close(b.Context()))
	b.ResetTimer()
	inbox, err := riverinbox.Open(b.Context(), pool, c)
	require.NoError(b, err)
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	require.NoError(b, inbox.Close(context.Background()))
}
