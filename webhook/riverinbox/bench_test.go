package riverinbox_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/enginetest"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// BenchmarkAcceptHTTP measures durable accepts through HTTP, including the signature, with 64
// concurrent deliveries. It compares them with one hand-written River transaction per event,
// and with HTTP without storage.
func BenchmarkAcceptHTTP(b *testing.B) {
	b.Run("nothing stored", func(b *testing.B) { receivertest.BenchmarkHTTP(b, receivertest.Nothing{}) })
	b.Run("InsertTx each", func(b *testing.B) { receivertest.BenchmarkHTTP(b, newByHand(b)) })
	b.Run("Inbox", func(b *testing.B) { benchmarkAccept(b, nil) })
	b.Run("Inbox in order", func(b *testing.B) { benchmarkAccept(b, webhook.ByObject) })
}

func benchmarkAccept(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey) {
	b.Helper()
	_, inbox := newBenchInbox(b, order)
	receivertest.BenchmarkHTTP(b, inbox)
}

// conns sets the number of connections of a pool. On two cores, accepts are slower with more
// than 16.
func conns(n int) func(*pgxpool.Config) { return func(c *pgxpool.Config) { c.MaxConns = int32(n) } }

// byHand is a simple hand-written inbox: a table, a job, and one transaction per event.
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
	pool := d.pool(b, conns(16))
	require.NoError(b, riverinbox.Migrate(b.Context(), pool, d.schema))
	d.exec(b, "CREATE TABLE inbox (key text PRIMARY KEY, body bytea NOT NULL, state smallint NOT NULL)")
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

// newBenchInbox creates an inbox that only accepts.
func newBenchInbox(b *testing.B, order func(webhook.Delivery, events.Event) webhook.OrderingKey) (database, *riverinbox.Inbox) {
	b.Helper()
	d := newDatabase(b)
	config := d.config(b, receivertest.Succeed)
	config.Work.Order = order
	return d, d.idle(b, config, conns(16))
}

// BenchmarkLedger measures accepts of new and of known events, alternating between a ledger of
// a month and an empty one. It also measures the speed of the retention.
func BenchmarkLedger(b *testing.B) {
	keys := testsize.Of(10_000, 1_000_000)
	empty, full := newMonth(b, 0), newMonth(b, keys)
	full.d.exec(b, "CHECKPOINT") // otherwise a checkpoint may run during the measurement
	for _, kind := range []string{"new", "known"} {
		b.Run(kind, func(b *testing.B) {
			var took [2][]time.Duration
			for n := range b.N {
				for of, m := range []month{empty, full} {
					event := m.known[n%len(m.known)]
					if kind == "new" {
						event.Key = receivertest.NewDelivery().Key
					}
					begin := time.Now()
					_, err := m.inbox.Accept(context.Background(), event)
					took[of] = append(took[of], time.Since(begin))
					require.NoError(b, err)
				}
			}
			slices.Sort(took[0])
			slices.Sort(took[1])
			b.ReportMetric(took[0][b.N/2].Seconds()*1000, "ms-empty")
			b.ReportMetric(took[1][b.N/2].Seconds()*1000, "ms-full")
			b.ReportMetric(float64(took[1][b.N/2])/float64(took[0][b.N/2]), "ratio")
		})
	}
	b.Run("retention", func(b *testing.B) { // once
		full.fill(b, today().AddDate(0, 0, -40), keys)
		begin := time.Now()
		require.NoError(b, full.inbox.Purge(context.Background()))
		b.ReportMetric(float64(keys)/time.Since(begin).Seconds(), "keys/s")
	})
}

// month is an inbox whose ledger contains keys for each of 31 days, and some events with these
// keys.
type month struct {
	d     database
	inbox *riverinbox.Inbox
	known []webhook.Delivery
}

func newMonth(b *testing.B, keys int) (m month) {
	b.Helper()
	m.d, m.inbox = newBenchInbox(b, nil)
	for back := range 31 {
		day := today().AddDate(0, 0, -back)
		m.fill(b, day, keys)
		var texts []string
		for range 100 {
			event := receivertest.NewDelivery()
			event.CreatedAt = day.Add(12 * time.Hour)
			m.known, texts = append(m.known, event), append(texts, event.Key.String())
		}
		m.d.exec(b, "INSERT INTO inbox_ledger SELECT inbox_key_digest(key), 0, $1, $1 FROM unnest($2::text[]) key", day, texts)
	}
	m.d.exec(b, "VACUUM ANALYZE inbox_ledger")
	rand.Shuffle(len(m.known), func(i, j int) { m.known[i], m.known[j] = m.known[j], m.known[i] })
	return m
}

// fill adds keys to a day.
func (m month) fill(b *testing.B, day time.Time, keys int) {
	b.Helper()
	m.d.exec(b, "INSERT INTO inbox_ledger SELECT gen_random_uuid(), 0, $1, $1 FROM generate_series(1, $2)", day, keys)
}

var (
	loadRate    = flag.Int("load.rate", 800, "events per second of BenchmarkLoad")
	loadFor     = flag.Duration("load.for", testsize.Of(10*time.Second, 30*time.Minute), "time for which BenchmarkLoad sends events")
	loadWorkers = flag.Int("load.workers", 64, "concurrent handlers of BenchmarkLoad")
	loadHeld    = flag.Duration("load.held", testsize.Of(3*time.Second, 10*time.Minute), "time for which BenchmarkLoad keeps a transaction open")
)

// load sends events at a steady rate, even if the inbox is slower.
type load struct {
	b       *testing.B
	pool    *pgxpool.Pool
	inbox   *riverinbox.Inbox
	handled atomic.Int64

	mu    sync.Mutex
	took  []time.Duration    // from the due time of an event
	sizes map[string]float64 // largest sizes
}

// BenchmarkLoad measures a process that accepts and handles, on an otherwise idle machine and
// a database with vacuum:
//
//	DISPENSARY_TEST_FULL=1 go test -run '^$' -bench Load -benchtime 1x -timeout 1h ./webhook/riverinbox
//
// It reports the time from an event's due time to its accept, the largest backlog and tables,
// and the time to handle the rest at the end.
func BenchmarkLoad(b *testing.B) {
	d := newDatabase(b)
	l := &load{b: b, pool: d.pool(b, conns(*loadWorkers+8)), sizes: map[string]float64{}}
	l.inbox = open(b, l.pool, riverinbox.Config{Schema: d.schema, Seal: receivertest.KeyRing(b), Work: webhook.Work{
		Workers: *loadWorkers, Order: webhook.ByObject,
		Handle: func(context.Context, events.Event) error {
			l.handled.Add(1)
			return nil
		},
	}})
	begin, total := time.Now(), int(loadFor.Seconds()*float64(*loadRate))
	stop := make(chan struct{})
	var watch, senders sync.WaitGroup
	watch.Go(func() { l.watch(stop) })
	watch.Go(func() { l.hold((*loadFor - *loadHeld) / 2) })
	due := make(chan time.Time, total)
	for range 256 {
		senders.Go(func() {
			for at := range due {
				l.accept(at)
			}
		})
	}
	for n := range total {
		at := begin.Add(time.Duration(n) * time.Second / time.Duration(*loadRate))
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	senders.Wait()
	b.ReportMetric(float64(total)/time.Since(begin).Seconds(), "accepts/s")
	b.ReportMetric(float64(l.backlog()), "backlog-end")
	end := time.Now()
	for l.backlog() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	b.ReportMetric(time.Since(end).Seconds(), "drained-s")
	close(stop)
	watch.Wait()
	l.report()
}

// accept accepts an event with a due time.
func (l *load) accept(at time.Time) {
	_, err := l.inbox.Accept(context.Background(), receivertest.NewDeliveryAmong(100_000))
	assert.NoError(l.b, err)
	took := time.Since(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
}

// hold keeps a transaction open, starting at after, to block vacuum.
func (l *load) hold(after time.Duration) {
	time.Sleep(after)
	assert.NoError(l.b, pgx.BeginTxFunc(context.Background(), l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		_, err := tx.Exec(context.Background(), "SELECT count(*) FROM inbox_order")
		time.Sleep(*loadHeld)
		return err
	}))
}

func (l *load) backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.took) - int(l.handled.Load())
}

// watch records the largest table sizes and the largest backlog.
func (l *load) watch(stop chan struct{}) {
	for ticker := time.Tick(time.Second); ; {
		l.sizes["backlog-max"] = max(l.sizes["backlog-max"], float64(l.backlog()))
		rows, err := l.pool.Query(context.Background(), `SELECT 'MB-' || relname, pg_total_relation_size(oid) / 1048576.0
			FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace`)
		require.NoError(l.b, err)
		var name string
		var size float64
		_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
			l.sizes[name] = max(l.sizes[name], size)
			return nil
		})
		require.NoError(l.b, err)
		select {
		case <-ticker:
		case <-stop:
			return
		}
	}
}

func (l *load) report() {
	for _, name := range []string{"backlog-max", "MB-river_job", "MB-inbox_order", "MB-inbox_ledger"} {
		l.b.ReportMetric(l.sizes[name], name)
	}
	slices.Sort(l.took)
	for unit, of := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99} {
		l.b.ReportMetric(l.took[int(float64(len(l.took)-1)*of)].Seconds()*1000, unit)
	}
	l.b.ReportMetric(0, "ns/op")
}

// BenchmarkDead measures an operations page with dead letters.
func BenchmarkDead(b *testing.B) {
	enginetest.BenchmarkDead(b, func(b *testing.B, work webhook.Work) engine.Engine {
		d := newDatabase(b)
		return open(b, d.pool(b, conns(48)), riverinbox.Config{Schema: d.schema, Seal: receivertest.KeyRing(b), Work: work})
	})
}
