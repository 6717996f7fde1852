package riverinbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// startKept is start with the partitions made.
func (d database) startKept(t *testing.T, handle webhook.HandlerFunc, change func(*riverinbox.Config)) (*riverinbox.Inbox, <-chan webhook.Attempt) {
	t.Helper()
	inbox, made := d.start(t, handle, change)
	d.keepPartitions(t, inbox)
	return inbox, made
}

// keepPartitions keeps the partitions now: an inbox that was opened just now may be at it, or
// write to them.
func (d database) keepPartitions(t testing.TB, inbox *riverinbox.Inbox) {
	t.Helper()
	require.Eventually(t, func() bool {
		err := inbox.KeepPartitions(context.Background())
		if riverinbox.Contended(err) {
			return false
		}
		require.NoError(t, err)
		var n int
		require.NoError(t, d.reader(t).QueryRow(context.Background(),
			"SELECT count(*) FROM pg_inherits WHERE inhparent = 'dispensary_inbox_bodies'::regclass").Scan(&n))
		return n > 0
	}, time.Minute, 10*time.Millisecond)
}

// acceptOn accepts a new event that was created at a time.
func acceptOn(t *testing.T, inbox webhook.Inbox, at time.Time) webhook.Delivery {
	t.Helper()
	event := receivertest.NewDelivery()
	event.CreatedAt = at
	receipt, err := inbox.Accept(t.Context(), event)
	require.NoError(t, err)
	require.False(t, receipt.Duplicate)
	return event
}

// acceptAgain holds that an event is known.
func acceptAgain(t *testing.T, inbox *riverinbox.Inbox, event webhook.Delivery) {
	t.Helper()
	receipt, err := inbox.Accept(t.Context(), event)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate, "%s of %s", event.Key, event.CreatedAt)
	missing, err := inbox.Missing(t.Context(), []webhook.Key{event.Key})
	require.NoError(t, err)
	assert.Empty(t, missing)
}

// TestOfAHandledEventOnlyItsDigestStays looks at all tables.
func TestOfAHandledEventOnlyItsDigestStays(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, made := d.startKept(t, receivertest.Succeed, nil)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	event := acceptOn(t, inbox, today.Add(12*time.Hour))
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger WHERE day = $1", today))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_bodies"), "it goes with its day")
	acceptAgain(t, inbox, event)
	event.CreatedAt = time.Time{}
	acceptAgain(t, inbox, event)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_bodies"))
}

// TestADiscardedEventIsInTheLedger gives an event up and drops it.
func TestADiscardedEventIsInTheLedger(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, made := d.startKept(t, func(context.Context, events.Event) error { return webhook.Permanent(context.Canceled) }, nil)
	event := receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultDead, (<-made).Result)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE body IS NULL"))
	n, err := inbox.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{event.Key}})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger"))
	acceptAgain(t, inbox, event)
}

// TestADayThatIsRounded repeats events of the end of a day with another time.
func TestADayThatIsRounded(t *testing.T) {
	t.Parallel()
	inbox, made := newDatabase(t).startKept(t, receivertest.Succeed, nil)
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	for _, times := range [][2]time.Time{
		{midnight.Add(-time.Millisecond), midnight},
		{midnight, midnight.Add(-time.Millisecond)},
	} {
		event := acceptOn(t, inbox, times[0])
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
		event.CreatedAt = times[1]
		acceptAgain(t, inbox, event)
	}
}

// TestDaysWithoutAPartition settles events of days for which there is none, or never is.
func TestDaysWithoutAPartition(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, made := d.startKept(t, receivertest.Succeed, nil)
	now := time.Now()
	var all []webhook.Delivery
	for _, at := range []time.Time{{}, now.AddDate(0, 0, -20), now.AddDate(0, 0, -40), now.AddDate(500, 0, 0), time.Unix(1, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		all = append(all, acceptOn(t, inbox, at))
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	assert.Equal(t, len(all), count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE state = 3 AND body_day IS NULL"))
	for range 2 {
		for _, event := range all {
			acceptAgain(t, inbox, event)
		}
		d.exec(t, "UPDATE dispensary_inbox SET due_at = due_at - interval '1 hour'")
		d.keepPartitions(t, inbox)
		assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger"), "the twentieth day before today")
		assert.Equal(t, len(all)-1, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
	}
}

// TestPartitionsAreMadeDuringAStatement makes partitions while a statement runs that began
// without them: it cannot write to them, but would find their names. Neither an accept nor an
// outcome fails by that.
func TestPartitionsAreMadeDuringAStatement(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T, *riverinbox.Inbox, *pgxpool.Pool) (write func() error){
		"accept": func(t *testing.T, inbox *riverinbox.Inbox, pool *pgxpool.Pool) func() error {
			return func() error {
				return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := inbox.AcceptIn(t.Context(), tx, receivertest.NewDelivery())
					return err
				})
			}
		},
		"outcome": func(t *testing.T, inbox *riverinbox.Inbox, _ *pgxpool.Pool) func() error {
			claim, err := inbox.Claim(t.Context(), "", receivertest.Accept(t, inbox).Key)
			require.NoError(t, err)
			return func() error { return settle(t, claim) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.exec(t, `CREATE FUNCTION to_regclass(name text) RETURNS regclass LANGUAGE plpgsql AS $$ BEGIN
				PERFORM pg_advisory_xact_lock_shared(hashtext(current_schema())); RETURN pg_catalog.to_regclass(name); END $$`)
			upkeep, err := d.pool(t).Begin(t.Context()) // is kept off
			require.NoError(t, err)
			_, err = upkeep.Exec(t.Context(), "SELECT pg_advisory_xact_lock(hashtextextended('dispensary_inbox ledger ' || $1, 0))", d.tables().Schema)
			require.NoError(t, err)
			other := d.idle(t, d.config(t, receivertest.Succeed))
			waiting := d.pool(t).Config()
			waiting.ConnConfig.RuntimeParams["search_path"] = d.schema + ",pg_catalog" // its own function
			pool, err := pgxpool.NewWithConfig(t.Context(), waiting)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })

			write := prepare(t, inbox, pool)
			lock, err := d.pool(t).Begin(t.Context())
			require.NoError(t, err)
			var pid int
			require.NoError(t, lock.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM pg_advisory_xact_lock(hashtext(current_schema()))").Scan(&pid))
			result := make(chan error, 1)
			go func() { result <- write() }()
			require.Eventually(t, func() bool {
				return count(t, d, "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))", pid) > 0
			}, time.Minute, 10*time.Millisecond)
			err = other.MakePartitions(t.Context(), time.Now().UTC().Truncate(24*time.Hour))
			assert.True(t, riverinbox.Contended(err), "%v", err)
			require.NoError(t, lock.Rollback(t.Context()))
			require.NoError(t, <-result)
			require.NoError(t, upkeep.Rollback(t.Context()))
			d.keepPartitions(t, other)
		})
	}
}

// TestAcceptsGoThroughNoTable holds that an accept costs the same however many events wait,
// and however many versions of their rows an open transaction keeps: none of its plans, which
// are made while the tables are small, goes through the table of events.
func TestAcceptsGoThroughNoTable(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	d.migrate(t, pool)
	inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	require.NoError(t, err)
	d.keepPartitions(t, inbox)
	const statistics = "SELECT %s FROM pg_stat_user_tables WHERE relid = 'dispensary_inbox'::regclass"
	const accepted = 50
	for range accepted {
		receivertest.Accept(t, inbox)
	}
	require.NoError(t, inbox.Close(t.Context()))
	pool.Close() // its connections report what they have done
	require.Eventually(t, func() bool { return count(t, d, fmt.Sprintf(statistics, "n_tup_ins")) == accepted }, time.Minute, 10*time.Millisecond)
	assert.Less(t, count(t, d, fmt.Sprintf(statistics, "seq_scan")), accepted, "accepts do not scan the table")
}

// TestAnEventIsSettledWhileAnAcceptWaits has an accept wait for a transaction in which the
// event is there and settled: when it goes on, there is no row to be found.
func TestAnEventIsSettledWhileAnAcceptWaits(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, inbox := d.pool(t), d.idle(t, d.config(t, receivertest.Succeed))
	d.keepPartitions(t, inbox)
	event := receivertest.NewDelivery()
	first, err := d.pool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = inbox.AcceptIn(t.Context(), first, event)
	require.NoError(t, err)

	waiting := make(chan int, 1)
	result := make(chan error, 1)
	go func() {
		result <- pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
			var pid int
			if err := tx.QueryRow(context.Background(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return err
			}
			waiting <- pid
			receipt, err := inbox.AcceptIn(context.Background(), tx, event)
			assert.True(t, receipt.Duplicate)
			return err
		})
	}()
	pid := <-waiting
	require.Eventually(t, func() bool {
		return count(t, d, "SELECT cardinality(pg_blocking_pids($1))", pid) > 0
	}, time.Minute, time.Millisecond)
	_, err = first.Exec(t.Context(), "DELETE FROM dispensary_inbox WHERE key = $1", event.Key.String())
	require.NoError(t, err)
	_, err = first.Exec(t.Context(), `INSERT INTO dispensary_inbox_ledger (day, digest)
		VALUES ($1, encode(substr(sha256(convert_to($2, 'UTF8')), 1, 16), 'hex')::uuid)`, event.CreatedAt.UTC(), event.Key.String())
	require.NoError(t, err)
	require.NoError(t, first.Commit(t.Context()))
	require.NoError(t, <-result)
	assert.Equal(t, map[string]int{event.Key.String(): 1}, known(t, d, event.Key.String()))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
}

// TestPartitionsAreDropped ages a ledger and bodies, while a transaction that has read
// them is open and after it.
func TestPartitionsAreDropped(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	fail := atomic.Bool{}
	fail.Store(true)
	inbox, made := d.startKept(t, func(context.Context, events.Event) error {
		if fail.Load() {
			return webhook.Permanent(context.Canceled)
		}
		return nil
	}, nil)
	dead := receivertest.Accept(t, inbox)
	<-made
	fail.Store(false)
	receivertest.Accept(t, inbox)
	<-made
	today := time.Now().UTC().Truncate(24 * time.Hour)
	rename := func(table string, days int) {
		from, to := today.Format("20060102"), today.AddDate(0, 0, -days)
		d.exec(t, fmt.Sprintf(`ALTER TABLE %[1]s DETACH PARTITION %[1]s_%[2]s; ALTER TABLE %[1]s_%[2]s RENAME TO %[1]s_%[3]s;
			UPDATE %[1]s_%[3]s SET day = '%[4]s'; ALTER TABLE %[1]s ATTACH PARTITION %[1]s_%[3]s FOR VALUES IN ('%[4]s')`,
			table, from, to.Format("20060102"), to.Format(time.DateOnly)))
	}
	rename("dispensary_inbox_ledger", 31)
	rename("dispensary_inbox_bodies", 1)
	d.exec(t, "UPDATE dispensary_inbox SET body_day = body_day - 1")
	d.keepPartitions(t, inbox)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger"), "within the time that keys are kept for")
	assert.Equal(t, 2, count(t, d, "SELECT count(*) FROM dispensary_inbox_bodies"))
	d.exec(t, `ALTER TABLE dispensary_inbox_ledger DETACH PARTITION dispensary_inbox_ledger_`+today.Format("20060102")+`; DROP TABLE dispensary_inbox_ledger_`+today.Format("20060102")+
		`; ALTER TABLE dispensary_inbox_ledger_`+today.AddDate(0, 0, -31).Format("20060102")+` RENAME TO dispensary_inbox_ledger_`+today.Format("20060102"))
	d.exec(t, `ALTER TABLE dispensary_inbox_bodies DETACH PARTITION dispensary_inbox_bodies_`+today.Format("20060102")+`; DROP TABLE dispensary_inbox_bodies_`+today.Format("20060102")+
		`; ALTER TABLE dispensary_inbox_bodies_`+today.AddDate(0, 0, -1).Format("20060102")+` RENAME TO dispensary_inbox_bodies_`+today.Format("20060102"))
	rename("dispensary_inbox_ledger", 32)
	rename("dispensary_inbox_bodies", 2)
	d.exec(t, "UPDATE dispensary_inbox SET body_day = body_day - 1")

	reader, err := d.pool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = inbox.AcceptIn(t.Context(), reader, receivertest.NewDelivery())
	require.NoError(t, err)
	require.Eventually(t, func() bool { // by itself the inbox may be at it
		return riverinbox.Contended(inbox.KeepPartitions(context.Background()))
	}, time.Minute, 10*time.Millisecond, "today's are missing")
	receivertest.Accept(t, inbox)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger WHERE day = $1", today.AddDate(0, 0, -32)), "it is in use")
	require.NoError(t, reader.Rollback(t.Context()))
	require.Eventually(t, func() bool { // it is left again while an event is handled
		d.keepPartitions(t, inbox)
		return count(t, d, `SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = ANY($1) AND relnamespace = $2::regnamespace`,
			[]string{"dispensary_inbox_ledger_" + today.AddDate(0, 0, -32).Format("20060102"), "dispensary_inbox_bodies_" + today.AddDate(0, 0, -2).Format("20060102")}, d.schema) == 0
	}, time.Minute, 10*time.Millisecond)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox_ledger WHERE day = $1", today.AddDate(0, 0, -32)))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox_bodies WHERE day = $1", today.AddDate(0, 0, -2)))
	assert.Equal(t, 2*4, count(t, d, "SELECT count(*) FROM pg_inherits JOIN pg_class c ON c.oid = inhparent WHERE relkind = 'p' AND relnamespace = $1::regnamespace", d.schema))

	e, err := inbox.Open(t.Context(), dead.Key)
	require.NoError(t, err)
	assert.Equal(t, string(dead.Body), string(e.Body), "the body of what is held stays")
}
