package riverinbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// allDays is the number of days in the ledger: 31 past days, today and 3 future days.
const allDays = 35

func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

// noon is far from any other day.
func noon() time.Time { return today().Add(12 * time.Hour) }

// acceptOn accepts a new event with a creation time.
func acceptOn(t *testing.T, inbox webhook.Inbox, at time.Time) webhook.Delivery {
	t.Helper()
	event := receivertest.NewDelivery()
	event.CreatedAt = at
	acceptNew(t, inbox, event)
	return event
}

// acceptNew accepts new events.
func acceptNew(t *testing.T, inbox webhook.Inbox, events ...webhook.Delivery) {
	t.Helper()
	for _, event := range events {
		receipt, err := inbox.Accept(t.Context(), event)
		require.NoError(t, err)
		require.False(t, receipt.Duplicate)
	}
}

// acceptAgain requires a known event.
func acceptAgain(t *testing.T, inbox *riverinbox.Inbox, event webhook.Delivery) {
	t.Helper()
	receipt, err := inbox.Accept(t.Context(), event)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate, "%s of %s", event.Key, event.CreatedAt)
	missing, err := inbox.Missing(t.Context(), []webhook.Key{event.Key})
	require.NoError(t, err)
	assert.Empty(t, missing)
}

func partitionOf(day time.Time) string { return "inbox_ledger_" + day.Format("20060102") }

// addDay adds a day with one digest to the ledger.
func (d database) addDay(t testing.TB, day time.Time) {
	t.Helper()
	d.exec(t, fmt.Sprintf("CREATE TABLE %s PARTITION OF inbox_ledger FOR VALUES FROM ('%s') TO ('%s')",
		partitionOf(day), day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)))
	d.exec(t, "INSERT INTO inbox_ledger VALUES (gen_random_uuid(), $1)", day)
}

// removeDay removes a day of the ledger.
func (d database) removeDay(t *testing.T, day time.Time) {
	t.Helper()
	d.exec(t, "ALTER TABLE inbox_ledger DETACH PARTITION "+partitionOf(day)+" CONCURRENTLY")
	d.exec(t, "DROP TABLE "+partitionOf(day))
}

// days returns the names of the ledger's partitions.
func (d database) days(t testing.TB) []string {
	t.Helper()
	return texts(t, d, `SELECT inhrelid::regclass::text FROM pg_inherits
		WHERE inhparent = 'inbox_ledger'::regclass AND NOT inhdetachpending ORDER BY 1`)
}

// TestKeepDaysDropsOldDays interrupts the drop of days in use by a transaction, and repeats
// it.
func TestKeepDaysDropsOldDays(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	days := d.days(t)
	require.Len(t, days, allDays)
	assert.Equal(t, partitionOf(today().AddDate(0, 0, 3)), days[allDays-1])
	d.addDay(t, today().AddDate(0, 0, -32))
	d.addDay(t, today().AddDate(0, 0, -50))
	d.exec(t, "INSERT INTO inbox_ledger VALUES (gen_random_uuid(), $1)", today().AddDate(0, 0, -31))
	require.NoError(t, inbox.KeepDays(t.Context()))
	assert.Len(t, d.days(t), allDays+2, "without a new event, no day is over")
	acceptOn(t, inbox, noon())

	reader, err := d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = reader.Exec(t.Context(), "SELECT count(*) FROM inbox_ledger")
	require.NoError(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- inbox.KeepDays(ctx) }()
	eventually(t, func() bool { return len(d.days(t)) == allDays+1 }, "KeepDays does not detach a day")
	acceptOn(t, inbox, noon())
	interrupt()
	require.ErrorIs(t, <-result, context.Canceled)
	event := acceptOn(t, inbox, noon())
	require.NoError(t, reader.Rollback(t.Context()))

	ended := today().AddDate(0, 0, -60)
	d.addDay(t, ended)
	d.exec(t, "ALTER TABLE inbox_ledger DETACH PARTITION "+partitionOf(ended)) // like a process that ended before the drop
	require.NoError(t, inbox.KeepDays(t.Context()))
	assert.Equal(t, days, d.days(t))
	assert.Equal(t, 4, count(t, d, "SELECT count(*) FROM inbox_ledger"))
	const tables = "SELECT count(*) FROM pg_tables WHERE schemaname = $1 AND starts_with(tablename, 'inbox_ledger_')"
	assert.Equal(t, allDays, count(t, d, tables, d.schema))
	acceptAgain(t, inbox, event)
}

// TestKeepDaysBlocksNoAccept creates and drops 30 days while two replicas accept.
func TestKeepDaysBlocksNoAccept(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inboxes := []*riverinbox.Inbox{d.idle(t, d.config(t, receivertest.Succeed)), d.idle(t, d.config(t, receivertest.Succeed))}
	acceptOn(t, inboxes[0], noon())
	days := d.days(t)
	var stop atomic.Bool
	var accepted atomic.Int64
	var senders sync.WaitGroup
	for n := range 4 {
		senders.Go(func() {
			for ; !stop.Load(); accepted.Add(1) {
				event := receivertest.NewDelivery()
				event.CreatedAt = noon()
				_, err := inboxes[n%2].Accept(context.Background(), event)
				assert.NoError(t, err)
			}
		})
	}
	for n := range 30 {
		d.removeDay(t, today().AddDate(0, 0, 3))
		d.addDay(t, today().AddDate(0, 0, -32-n))
		before := accepted.Load()
		require.NoError(t, inboxes[n%2].KeepDays(t.Context()))
		require.Equal(t, days, d.days(t), n)
		eventually(t, func() bool { return accepted.Load() > before }, "accepts are blocked")
	}
	stop.Store(true)
	senders.Wait()
	assert.Equal(t, int(accepted.Load())+1, count(t, d, "SELECT count(*) FROM inbox_ledger WHERE day = $1", today()))
}

// TestReplicasKnowSameDays starts replicas concurrently. If one replica did not know a day,
// two replicas could accept the same event as new.
func TestReplicasKnowSameDays(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), d.reader(t), d.schema))
	var replicas sync.WaitGroup
	for range 6 {
		pool, config, event := d.pool(t), d.config(t, receivertest.Succeed), receivertest.NewDelivery()
		event.CreatedAt = noon()
		replicas.Go(func() {
			inbox, err := riverinbox.New(t.Context(), pool, config)
			if assert.NoError(t, err) {
				_, err = inbox.Accept(t.Context(), event)
				assert.NoError(t, errors.Join(err, inbox.Close(t.Context())))
			}
		})
	}
	replicas.Wait()
	assert.Equal(t, 6, count(t, d, "SELECT count(*) FROM inbox_ledger"))
}

// TestEventsOutsideLedgerAreKnown accepts events with creation times outside of the ledger. It
// repeats them after the ledger has more partitions, and with another time.
func TestEventsOutsideLedgerAreKnown(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	now := noon()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	var all []webhook.Delivery
	for _, at := range []time.Time{{}, now.AddDate(0, 0, -40), now.AddDate(500, 0, 0), time.Unix(1, 0), last} {
		all = append(all, acceptOn(t, inbox, at))
	}
	assert.Zero(t, count(t, d, "SELECT count(*) FROM inbox_ledger"))
	all = append(all, acceptOn(t, inbox, now.AddDate(0, 0, -20)), acceptOn(t, inbox, now))
	for _, event := range all {
		acceptAgain(t, inbox, event)
	}
	d.addDay(t, today().AddDate(0, 0, -40))
	require.NoError(t, inbox.KeepDays(t.Context()))
	for _, event := range all {
		acceptAgain(t, inbox, event)
		event.CreatedAt = time.Time{}
		acceptAgain(t, inbox, event)
	}
	assert.Equal(t, 5, count(t, d, "SELECT count(*) FROM inbox_undated"))

	// Another process has removed the day.
	d.removeDay(t, today().AddDate(0, 0, 2))
	event := acceptOn(t, inbox, now.AddDate(0, 0, 2))
	require.NoError(t, inbox.KeepDays(t.Context()))
	acceptAgain(t, inbox, event)
}

// TestRoundedMidnightIsKnown repeats events from around midnight with a rounded time.
func TestRoundedMidnightIsKnown(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	for _, midnight := range []time.Time{today(), today().AddDate(0, 0, 4), today().AddDate(0, 0, -31)} {
		for at, rounded := range map[time.Duration]time.Duration{
			-time.Millisecond: 0, 0: -time.Millisecond, -59 * time.Second: 0, 30 * time.Second: -29 * time.Second,
		} {
			event := acceptOn(t, inbox, midnight.Add(at))
			event.CreatedAt = midnight.Add(rounded)
			acceptAgain(t, inbox, event)
		}
	}
}

// TestConcurrentAcceptsStoreEventOnce accepts an event while a replica that stores it
// elsewhere in the ledger has accepted it in an open transaction. Other events must not wait.
func TestConcurrentAcceptsStoreEventOnce(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	dayless, inbox := d.idle(t, d.config(t, receivertest.Succeed)), d.idle(t, d.config(t, receivertest.Succeed))
	later := today().AddDate(0, 0, 10)
	d.addDay(t, later)
	require.NoError(t, inbox.KeepDays(t.Context())) // only this replica knows the day
	commit := func(tx pgx.Tx) error { return tx.Commit(t.Context()) }
	for _, c := range []struct {
		one, other *riverinbox.Inbox
		end        func(pgx.Tx) error
		duplicate  bool
		err        error
	}{
		{one: inbox, other: dayless, end: commit, duplicate: true},
		{one: dayless, other: inbox, end: commit, duplicate: true},
		{one: inbox, other: inbox, end: func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }},
		{one: inbox, other: dayless, end: func(pgx.Tx) error { return dayless.Close(t.Context()) }, err: webhook.ErrInboxClosed},
	} {
		event := receivertest.NewDelivery()
		event.CreatedAt = later.Add(12 * time.Hour)
		tx, err := d.reader(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = c.one.AcceptIn(t.Context(), tx, event)
		require.NoError(t, err)
		duplicate := make(chan bool, 1)
		go func() {
			receipt, err := c.other.Accept(context.Background(), event)
			assert.Equal(t, c.err, err)
			duplicate <- receipt.Duplicate
		}()
		d.waits(t, "inbox_accept")
		acceptOn(t, c.other, noon())
		require.NoError(t, c.end(tx))
		assert.Equal(t, c.duplicate, next(t, duplicate))
		_ = tx.Rollback(t.Context())
	}
	assert.Equal(t, 1+2, count(t, d, "SELECT count(*) FROM inbox_ledger WHERE day = $1", later))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM inbox_undated"))
}

// TestKeepDaysKeepsKeysForRetention ages undated digests and the times of objects.
func TestKeepDaysKeepsKeysForRetention(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	old := acceptOn(t, inbox, time.Time{})
	d.exec(t, "INSERT INTO inbox_undated SELECT gen_random_uuid(), now() FROM generate_series(1, 2500)")
	d.exec(t, "INSERT INTO inbox_discarded SELECT digest, accepted_at FROM inbox_undated")
	d.exec(t, "INSERT INTO inbox_newest VALUES ('one', now(), now())")
	age := func(days int) {
		t.Helper()
		d.exec(t, fmt.Sprintf("UPDATE inbox_undated SET accepted_at = now() - interval '%d days'", days))
		d.exec(t, fmt.Sprintf("UPDATE inbox_discarded SET at = now() - interval '%d days'", days))
		d.exec(t, fmt.Sprintf("UPDATE inbox_newest SET noted_at = now() - interval '%d days'", days))
		require.NoError(t, inbox.KeepDays(t.Context()))
	}
	age(30)
	acceptAgain(t, inbox, old)
	assert.Equal(t, 1+2501, count(t, d, "SELECT (SELECT count(*) FROM inbox_newest) + count(*) FROM inbox_discarded"))
	age(33)
	assert.Zero(t, count(t, d, "SELECT (SELECT count(*) FROM inbox_newest) + (SELECT count(*) FROM inbox_discarded) + count(*) FROM inbox_undated"))
}

// byWrongClock makes all SQL call the schema's clock functions instead of PostgreSQL's.
func (d database) byWrongClock(c *pgxpool.Config) {
	c.ConnConfig.RuntimeParams["search_path"] = d.schema + ",pg_catalog"
}

// wrongClock returns a pool whose database has a wrong clock.
func (d database) wrongClock(t *testing.T) (pool *pgxpool.Pool, ahead func(string)) {
	t.Helper()
	d.exec(t, "CREATE TABLE clock AS SELECT interval '0' AS ahead")
	for name, kind := range map[string]string{"now": "STABLE", "clock_timestamp": "VOLATILE"} {
		d.exec(t, "CREATE FUNCTION "+name+"() RETURNS timestamptz LANGUAGE sql "+kind+
			" AS 'SELECT pg_catalog."+name+"() + ahead FROM "+d.schema+".clock'")
	}
	return d.pool(t, d.byWrongClock), func(by string) { d.exec(t, "UPDATE clock SET ahead = $1::interval", by) }
}

// failOnce fails the first attempt of each event.
func failOnce(ctx context.Context, _ events.Event) error {
	if webhook.HandlingFrom(ctx).Attempt == 1 {
		return errDown
	}
	return nil
}

// TestWrongDatabaseClockDelaysNoEvent moves the clock of the database. At each time it accepts
// events that fail and back off for an hour. They must be handled soon after the next move.
func TestWrongDatabaseClockDelaysNoEvent(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, ahead := d.wrongClock(t)
	config := d.config(t, failOnce)
	config.Work.Order, config.Work.Retry.BackOff, config.Work.Retry.MaxBackOff = webhook.ByObject, time.Hour, time.Hour
	made := receivertest.Observe(&config.Work)
	idle := d.idle(t, config, d.byWrongClock)
	failed := []webhook.Delivery{acceptOn(t, idle, time.Time{})}
	ahead("33 days")
	failed = append(failed, acceptOn(t, idle, time.Time{}))
	require.NoError(t, idle.KeepDays(t.Context()), "no event reveals the wrong clock")
	ahead("0")
	failed = append(failed, acceptOn(t, idle, noon()), acceptOn(t, idle, time.Time{}))
	inbox := open(t, pool, config)
	for range failed {
		require.Equal(t, webhook.ResultFailed, next(t, made).Result)
	}
	all := failed
	for _, by := range []string{"33 days", "0", "-2 hours", "33 days", "-2 hours", "0"} {
		ahead(by)
		more := []webhook.Delivery{acceptOn(t, idle, noon()), acceptOn(t, idle, time.Time{})}
		got, want := map[webhook.Key]int{}, map[webhook.Key]int{more[0].Key: 1, more[1].Key: 1}
		for _, event := range failed {
			want[event.Key] = 2
		}
		for range want {
			a := next(t, made)
			got[a.Key] = a.Number
		}
		require.Equal(t, want, got, "attempts after %s", by)
		all, failed = append(all, more...), more
		require.NoError(t, inbox.KeepDays(t.Context()))
	}
	for _, event := range all {
		acceptAgain(t, inbox, event)
	}
	assert.Equal(t, 7, count(t, d, "SELECT count(*) FROM inbox_ledger WHERE day = $1", today()))
	assert.Contains(t, d.days(t), partitionOf(today().AddDate(0, 0, -31)))
}

// TestClockSetBackFreesLeases claims leases stored while the clock was ahead.
func TestClockSetBackFreesLeases(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	ctx := t.Context()
	_, err := inbox.ClaimCheckpoint(ctx, "one", "dead", time.Minute)
	require.NoError(t, err)
	_, err = inbox.ClaimCheckpoint(ctx, "one", "other", time.Minute)
	require.ErrorIs(t, err, reconcile.ErrCheckpointHeld)
	d.exec(t, "UPDATE inbox_checkpoints SET until = until + interval '33 days'")
	_, err = inbox.ClaimCheckpoint(ctx, "one", "other", time.Minute)
	require.NoError(t, err)

	for expires, kept := range map[string]int{"15 seconds": 1, "33 days": 0} {
		d.exec(t, `TRUNCATE river_leader; INSERT INTO river_leader (elected_at, expires_at, leader_id)
			VALUES (now(), now() + interval '`+expires+`', 'dispensary_other')`)
		d.exec(t, "UPDATE inbox_checkpoints SET until = now() + interval '33 days'") // including the checkpoint of the sweep
		require.NoError(t, inbox.Sweep(ctx))
		assert.Equal(t, kept, count(t, d, "SELECT count(*) FROM river_leader"))
	}
}
