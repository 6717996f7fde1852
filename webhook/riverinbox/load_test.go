package riverinbox_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// What BenchmarkLoad does: so many events a second, for how long, and in the middle of it a
// transaction is held open for how long.
var (
	loadRate     = flag.Int("load.rate", 800, "events a second of BenchmarkLoad")
	loadFor      = flag.Duration("load.for", testsize.Of(10*time.Second, 30*time.Minute), "how long BenchmarkLoad sends events")
	loadWorkers  = flag.Int("load.workers", 512, "how many events BenchmarkLoad handles at a time")
	loadPatients = flag.Int("load.patients", 100_000, "how many patients the events of BenchmarkLoad are about, in turn")
	loadHeld     = flag.Duration("load.held", testsize.Of(3*time.Second, 10*time.Minute), "how long BenchmarkLoad holds a transaction open")
)

// load is events that come at a steady rate, whether the inbox keeps up or not.
type load struct {
	b       *testing.B
	pool    *pgxpool.Pool
	inbox   *riverinbox.Inbox
	handled atomic.Int64
	held    atomic.Bool // a transaction is open

	mu    sync.Mutex
	took  map[bool][]time.Duration // since an event was due, by whether a transaction was open
	sizes map[string]int64         // the largest there was
	most  int                      // events that were accepted and not handled
}

// BenchmarkLoad is a program for figures, to be run once on a machine that does nothing
// else, and on a database whose vacuum is on:
//
//	DISPENSARY_TEST_FULL=1 go test -run '^$' -bench Load -benchtime 1x -timeout 1h ./webhook/riverinbox
//
// One process accepts and handles. It reports how long an event waited from the moment at
// which it was due until it was accepted, the largest backlog and the largest sizes of the
// tables with all that belongs to them, and how long the backlog took that was left at the end.
func BenchmarkLoad(b *testing.B) {
	d := newDatabase(b)
	l := &load{b: b, pool: benchPool(b, d), took: map[bool][]time.Duration{}, sizes: map[string]int64{}}
	config := riverinbox.Config{Seal: receivertest.KeyRing(b), Tables: d.tables(), Work: webhook.Work{
		Workers: *loadWorkers, Order: webhook.ByObject,
		Handle: func(context.Context, events.Event) error {
			l.handled.Add(1)
			return nil
		},
	}}
	var err error
	l.inbox, err = riverinbox.Open(b.Context(), l.pool, config)
	require.NoError(b, err)
	for range b.N {
		l.run(*loadRate, *loadFor, *loadHeld)
	}
	require.NoError(b, l.inbox.Close(context.Background()))
}

func (l *load) run(rate int, lasts, held time.Duration) {
	begin := time.Now()
	watched, stop := make(chan struct{}), make(chan struct{})
	go l.watch(stop, watched)
	hold := time.AfterFunc((lasts-held)/2, func() { l.hold(held) })
	defer hold.Stop()

	total := int(lasts.Seconds() * float64(rate))
	due := make(chan time.Time, total)
	var senders sync.WaitGroup
	for range 256 {
		senders.Go(func() {
			for at := range due {
				l.accept(at)
			}
		})
	}
	for n := range total {
		at := begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(at))
		due <- at
	}
	close(due)
	senders.Wait()
	sent := time.Since(begin)
	before := l.backlog()
	end := time.Now()
	for l.backlog() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	drained := time.Since(end)
	close(stop)
	<-watched
	l.report(total, sent, before, drained)
}

// accept accepts an event that was due at a time.
func (l *load) accept(at time.Time) {
	held := l.held.Load()
	if _, err := l.inbox.Accept(context.Background(), receivertest.NewDeliveryAmong(*loadPatients)); err != nil {
		l.b.Error(err)
		return
	}
	took := time.Since(at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took[held] = append(l.took[held], took)
}

// hold holds a transaction open that sees the database as it was, so that nothing can be
// vacuumed.
func (l *load) hold(d time.Duration) {
	err := pgx.BeginTxFunc(context.Background(), l.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		l.held.Store(true)
		defer l.held.Store(false)
		if _, err := tx.Exec(context.Background(), "SELECT count(*) FROM dispensary_inbox"); err != nil {
			return err
		}
		time.Sleep(d)
		return nil
	})
	if err != nil {
		l.b.Error(err)
	}
}

func (l *load) backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.took[true]) + len(l.took[false]) - int(l.handled.Load())
}

// watch looks for the largest sizes until it is told to stop.
func (l *load) watch(stop, done chan struct{}) {
	defer close(done)
	for ticker := time.NewTicker(time.Second); ; {
		rows, err := l.pool.Query(context.Background(), `SELECT coalesce(inhparent::regclass::text, c.oid::regclass::text), sum(pg_total_relation_size(c.oid))
			FROM pg_class c LEFT JOIN pg_inherits ON inhrelid = c.oid
			WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace GROUP BY 1
			UNION ALL SELECT 'rows', pg_relation_size('dispensary_inbox')`)
		if err != nil {
			l.b.Error(err)
			return
		}
		var table string
		var size int64
		backlog := l.backlog()
		l.mu.Lock()
		_, err = pgx.ForEachRow(rows, []any{&table, &size}, func() error {
			l.sizes[table] = max(l.sizes[table], size)
			return nil
		})
		l.most = max(l.most, backlog)
		l.mu.Unlock()
		if err != nil {
			l.b.Error(err)
			return
		}
		select {
		case <-ticker.C:
		case <-stop:
			ticker.Stop()
			return
		}
	}
}

func (l *load) report(total int, sent time.Duration, backlog int, drained time.Duration) {
	percentile := func(all []time.Duration, of float64) float64 {
		if len(all) == 0 {
			return 0
		}
		slices.Sort(all)
		return float64(all[int(float64(len(all)-1)*of)]) / float64(time.Millisecond)
	}
	l.b.ReportMetric(float64(total)/sent.Seconds(), "accepts/s")
	for name, took := range map[string][]time.Duration{
		"": slices.Concat(l.took[true], l.took[false]), "-held": l.took[true], "-not-held": l.took[false],
	} {
		l.b.ReportMetric(percentile(took, 0.5), "p50-ms"+name)
		l.b.ReportMetric(percentile(took, 0.99), "p99-ms"+name)
	}
	l.b.ReportMetric(float64(l.most), "backlog-max")
	l.b.ReportMetric(float64(backlog), "backlog-end")
	l.b.ReportMetric(drained.Seconds(), "drained-s")
	for _, table := range []string{"dispensary_inbox", "dispensary_inbox_lines", "dispensary_inbox_ledger", "dispensary_inbox_bodies", "river_job"} {
		l.b.ReportMetric(float64(l.sizes[table])/(1<<20), fmt.Sprint("MB-", table))
	}
	l.b.ReportMetric(float64(l.sizes["rows"])/(1<<20), "MB-dispensary_inbox-without-indexes")
	l.b.ReportMetric(0, "ns/op")
}
