package riverinbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
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

// BenchmarkLedger measures accepts with a ledger of a month, and in turns with one that is
// empty, which is the floor: of events that are new, and of such as were handled on any day.
// It reports medians and their ratio, and how long the retention of one day takes, and how
// many dead rows it leaves.
func BenchmarkLedger(b *testing.B) {
	keys := testsize.Of(10_000, 1_000_000)
	empty, full := newMonth(b, 0), newMonth(b, keys)
	_, err := full.d.reader(b).Exec(b.Context(), "CHECKPOINT") // or it is written meanwhile
	require.NoError(b, err)
	b.Run("new", func(b *testing.B) {
		inTurns(b, empty, full, func(m month, n int) webhook.Delivery {
			event := receivertest.NewDelivery()
			event.CreatedAt = m.known[n%len(m.known)].CreatedAt
			return event
		})
	})
	b.Run("known", func(b *testing.B) {
		inTurns(b, empty, full, func(m month, n int) webhook.Delivery { return m.known[n%len(m.known)] })
	})
	b.Run("retention", func(b *testing.B) { benchRetention(b, full.d, full.inbox, keys) })
}

// month is an inbox with so many keys in its ledger for each of 31 days, and events of all
// days that are among them.
type month struct {
	d     database
	inbox *riverinbox.Inbox
	known []webhook.Delivery
}

func newMonth(b *testing.B, keys int) month {
	b.Helper()
	d := newDatabase(b)
	pool := benchPool(b, d)
	d.migrate(b, pool)
	inbox, err := riverinbox.New(b.Context(), pool, riverinbox.Config{
		Seal: receivertest.KeyRing(b), Tables: d.tables(), Work: webhook.Work{Handle: receivertest.Succeed}, Lease: time.Hour,
	})
	require.NoError(b, err)
	b.Cleanup(func() { _ = inbox.Close(context.Background()) })
	d.keepPartitions(b, inbox)
	return month{d, inbox, fillLedger(b, d, keys)}
}

// inTurns accepts the next event in each of two months.
func inTurns(b *testing.B, empty, full month, next func(month, int) webhook.Delivery) {
	took := map[string][]time.Duration{}
	for n := range b.N {
		for name, m := range map[string]month{"empty": empty, "full": full} {
			event := next(m, n)
			begin := time.Now()
			_, err := m.inbox.Accept(context.Background(), event)
			took[name] = append(took[name], time.Since(begin))
			require.NoError(b, err)
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return float64(took[name][b.N/2]) / float64(time.Millisecond)
	}
	b.ReportMetric(median("empty"), "ms-empty")
	b.ReportMetric(median("full"), "ms-full")
	b.ReportMetric(median("full")/median("empty"), "ratio")
	b.ReportMetric(0, "ns/op")
}

// fillLedger makes so many keys for each of 31 days, and returns events of all days that
// are among them.
func fillLedger(b *testing.B, d database, keys int) (known []webhook.Delivery) {
	b.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	for back := range 31 {
		day := today.AddDate(0, 0, -back)
		d.partition(b, day)
		_, err := d.reader(b).Exec(b.Context(), "INSERT INTO dispensary_inbox_ledger SELECT $1, gen_random_uuid() FROM generate_series(1, $2) ORDER BY 2", day, keys)
		require.NoError(b, err)
		var texts []string
		for range 100 {
			event := receivertest.NewDelivery()
			event.CreatedAt = day.Add(12 * time.Hour)
			known, texts = append(known, event), append(texts, event.Key.String())
		}
		_, err = d.reader(b).Exec(b.Context(), `INSERT INTO dispensary_inbox_ledger
			SELECT $1, encode(substr(sha256(convert_to(key, 'UTF8')), 1, 16), 'hex')::uuid FROM unnest($2::text[]) key`, day, texts)
		require.NoError(b, err)
	}
	_, err := d.reader(b).Exec(b.Context(), "VACUUM ANALYZE dispensary_inbox_ledger")
	require.NoError(b, err)
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	return known
}

// partition makes a partition of the ledger, unless it is there.
func (d database) partition(b *testing.B, day time.Time) {
	b.Helper()
	name := "dispensary_inbox_ledger_" + day.Format("20060102")
	if d.has(b, name) {
		return
	}
	d.exec(b, fmt.Sprintf("CREATE TABLE %s PARTITION OF dispensary_inbox_ledger FOR VALUES IN ('%s')", name, day.Format(time.DateOnly)))
}

func (d database) has(b *testing.B, table string) (there bool) {
	b.Helper()
	require.NoError(b, d.reader(b).QueryRow(b.Context(), "SELECT to_regclass($1) IS NOT NULL", table).Scan(&there))
	return there
}

// benchRetention drops a day as large as the others that is too old, once.
func benchRetention(b *testing.B, d database, inbox *riverinbox.Inbox, keys int) {
	old := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -32)
	d.partition(b, old)
	_, err := d.reader(b).Exec(b.Context(), "INSERT INTO dispensary_inbox_ledger SELECT $1, gen_random_uuid() FROM generate_series(1, $2) ORDER BY 2", old, keys)
	require.NoError(b, err)
	begin := time.Now()
	require.NoError(b, inbox.KeepPartitions(context.Background()))
	b.ReportMetric(float64(time.Since(begin))/float64(time.Millisecond), "ms")
	require.False(b, d.has(b, "dispensary_inbox_ledger_"+old.Format("20060102")))
	var dead float64
	require.NoError(b, d.reader(b).QueryRow(b.Context(),
		"SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE schemaname = $1 AND relname LIKE 'dispensary_inbox_ledger%'", d.schema).Scan(&dead))
	b.ReportMetric(dead, "dead-rows")
	b.ReportMetric(0, "ns/op")
}
