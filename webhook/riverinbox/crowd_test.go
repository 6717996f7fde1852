package riverinbox_test

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// crowd is three replicas with events of a few ordering keys, and a record of their handlers.
type crowd struct {
	database
	replicas []*riverinbox.Inbox

	mu      sync.Mutex
	running map[string]int
	overlap []string
	handled map[string]int // successful calls by key
}

// newCrowd opens three replicas.
func newCrowd(t *testing.T, handle func() error, change func(*riverinbox.Config)) *crowd {
	t.Helper()
	r := &crowd{database: newDatabase(t), running: map[string]int{}, handled: map[string]int{}}
	for range 3 {
		config := r.config(t, func(ctx context.Context, _ events.Event) error {
			key := webhook.HandlingFrom(ctx).Key
			defer r.begin(key)()
			for range rand.IntN(300) { // gives other events a chance to start too early
				runtime.Gosched()
			}
			err := handle()
			if err == nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.handled[key.String()]++
			}
			return err
		})
		ordered(&config)
		config.Work.Retry = webhook.RetryPolicy{BackOff: 10 * time.Millisecond}
		change(&config)
		r.replicas = append(r.replicas, open(t, r.pool(t), config))
	}
	return r
}

// begin records the start of a handler, and returns a function for its end. An event without
// an ordering key may only overlap with itself.
func (r *crowd) begin(key webhook.Key) (end func()) {
	orderingKey := key.IntegrationID
	if orderingKey == free {
		orderingKey = key.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[orderingKey]++; r.running[orderingKey] > 1 {
		r.overlap = append(r.overlap, orderingKey)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running[orderingKey]--
	}
}

// send sends n events of 12 ordering keys, one of them for unordered events, from six senders
// to the replicas. It calls before once for each event.
func (r *crowd) send(t *testing.T, n int, before func()) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	var senders sync.WaitGroup
	for sender := range 6 {
		senders.Go(func() {
			for k := range n / 6 {
				orderingKey := free
				if m := rand.IntN(12); m > 0 {
					orderingKey = fmt.Sprint("key_", m)
				}
				event := in(orderingKey, rand.IntN(3000))
				before()
				_, err := r.replicas[(sender+k)%3].Accept(t.Context(), event)
				assert.NoError(t, err)
				mu.Lock()
				keys = append(keys, event.Key.String())
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	return keys
}

// drained waits until every event has ended, and requires that handlers ran in order.
func (r *crowd) drained(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		return count(t, r.database, "SELECT count(*) FROM river_job WHERE finalized_at IS NULL") == 0
	}, testsize.Of(time.Minute, 4*time.Minute), 20*time.Millisecond, "events still wait")
	r.allEnd(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(t, r.overlap, "two handlers of an ordering key overlapped")
}

// TestNoOrderingKeyStalls accepts at three replicas while handlers end. No process sweeps, so
// no stalled ordering key is repaired.
func TestNoOrderingKeyStalls(t *testing.T) {
	t.Parallel()
	r := newCrowd(t, func() error { return nil }, func(c *riverinbox.Config) { *c = c.Still() })
	keys := r.send(t, testsize.Of(300, 6000), func() {})
	r.drained(t)
	for _, key := range keys {
		require.Equal(t, 1, r.handled[key], key)
	}
}

// TestRiverActionsKeepOrder retries, cancels and deletes events at random in River while three
// replicas handle them and some attempts fail.
func TestRiverActionsKeepOrder(t *testing.T) {
	t.Parallel()
	r := newCrowd(t, func() error {
		switch rand.IntN(60) {
		case 0:
			return errBad
		case 1, 2, 3:
			return errDown
		}
		return nil
	}, func(*riverinbox.Config) {})
	keys := r.send(t, testsize.Of(300, 6000), func() { r.act(t) })
	r.drained(t)
	for _, key := range texts(t, r.database, "SELECT args->>'key' FROM river_job WHERE state = 'completed'") {
		assert.Positive(t, r.handled[key], "completed but never handled: %s", key)
	}
	assert.Len(t, known(t, r.database, keys...), len(keys))
}

// act makes a random change that River's UI offers.
func (r *crowd) act(t *testing.T) {
	var job int64
	if r.reader(t).QueryRow(t.Context(), "SELECT id FROM river_job ORDER BY random() LIMIT 1").Scan(&job) != nil {
		return // no job exists
	}
	client := r.replicas[rand.IntN(3)].River()
	switch n := rand.IntN(10); { // an error means that the job is gone or running
	case n < 7:
		_, _ = client.JobRetry(t.Context(), job)
	case n < 9:
		_, _ = client.JobCancel(t.Context(), job)
	default:
		_, _ = client.JobDelete(t.Context(), job)
	}
}

// TestMain also runs the receivers of TestKill.
func TestMain(m *testing.M) {
	if folder := os.Getenv("RIVERINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receivertest.Receiver{
			Folder: folder, CrashOneIn: testsize.Of(100, 1000),
			Effect: func(ctx context.Context, _ string) error { return riverinbox.InTransaction(ctx, write) },
			Open: func(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
				pool, err := pgxpool.New(context.Background(), os.Getenv("RIVERINBOX_TEST_ADDRESS"))
				if err != nil {
					return nil, err
				}
				return riverinbox.Open(context.Background(), pool, riverinbox.Config{
					Work: work, Seal: ring, TakeOver: 3 * time.Second, Schema: pool.Config().ConnConfig.RuntimeParams["search_path"],
				})
			},
		}.Run())
	}
	os.Exit(m.Run())
}

// TestKill sends events of two integrations, with duplicates and out of order, to three
// receivers. One is killed repeatedly, some kill themselves between the accept and the
// response, and the database closes all connections twice.
func TestKill(t *testing.T) {
	testsize.SkipUnderRace(t)
	k := receivertest.NewKillTest(t, testsize.Of(100, 10_000), "in_1", "in_2")
	d := newDatabase(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), d.pool(t), d.schema))
	d.exec(t, "CREATE TABLE effects (key text NOT NULL)")
	k.Receivers = 3
	address := d.address + "&pool_max_conns=16&application_name=" + d.schema
	k.Environ = []string{"RIVERINBOX_TEST_RECEIVER=" + k.Folder, "RIVERINBOX_TEST_ADDRESS=" + address}
	k.Ended = func() {
		if acked := k.Acked(); len(acked) > 0 {
			require.Len(t, known(t, d, acked...), len(acked), "events were acknowledged but are not stored")
		}
	}
	k.Cut = func() {
		d.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", d.schema)
	}
	k.Drained = func() bool {
		return count(t, d, "SELECT count(*) FROM river_job WHERE state NOT IN ('completed', 'cancelled')") == 0
	}
	k.Run(t)
	k.Ended()
	k.Check(t)
	stored := known(t, d, k.Keys...) // also the handled keys, because no event waits
	k.CheckTables(t, stored, stored, countTexts(t, d, "SELECT key FROM effects"))
	assert.NotContains(t, string(dump(t, d)), receivertest.Canary)
}

// countTexts counts the texts in the result of a query.
func countTexts(t testing.TB, d database, query string, args ...any) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, text := range texts(t, d, query, args...) {
		counts[text]++
	}
	return counts
}

// texts returns the texts in the result of a query.
func texts(t testing.TB, d database, query string, args ...any) []string {
	t.Helper()
	rows, err := d.reader(t).Query(t.Context(), query, args...)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return texts
}

// count returns the number in the result of a query.
func count(t testing.TB, d database, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, d.reader(t).QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

// write writes a row of the program.
func write(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO effects (key) VALUES ($1)", webhook.HandlingFrom(ctx).Key.String())
	return err
}
