package riverinbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

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

// TestEventIsKnownByKeyOnly repeats events with other times.
func TestEventIsKnownByKeyOnly(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, at := range []time.Time{{}, today(), noon().AddDate(0, 0, -40), noon().AddDate(500, 0, 0), time.Unix(1, 0), last} {
		event := acceptOn(t, inbox, at)
		require.NoError(t, inbox.Purge(t.Context()))
		acceptAgain(t, inbox, event)
		event.CreatedAt = at.Add(-time.Millisecond)
		acceptAgain(t, inbox, event)
	}
	d.exec(t, "TRUNCATE river_job") // an event with a job is always known
	require.NoError(t, inbox.Purge(t.Context()))
	assert.Equal(t, 6, count(t, d, "SELECT count(*) FROM inbox_ledger"))
}

// TestConcurrentAcceptsStoreEventOnce accepts an event while another replica has accepted it in an
// open transaction. Other events must not wait.
func TestConcurrentAcceptsStoreEventOnce(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	one, other := d.idle(t, config), d.idle(t, config)
	for _, c := range []struct {
		end       func(pgx.Tx) error
		duplicate bool
		err       error
	}{
		{end: func(tx pgx.Tx) error { return tx.Commit(t.Context()) }, duplicate: true},
		{end: func(tx pgx.Tx) error { return tx.Rollback(t.Context()) }},
		{end: func(pgx.Tx) error { return other.Close(t.Context()) }, err: webhook.ErrInboxClosed},
	} {
		event := receivertest.NewDelivery()
		tx, err := d.reader(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = one.AcceptIn(t.Context(), tx, event)
		require.NoError(t, err)
		duplicates := make(chan bool, 2)
		for range 2 {
			go func() {
				receipt, err := other.Accept(context.Background(), event)
				assert.Equal(t, c.err, err)
				duplicates <- receipt.Duplicate
			}()
		}
		for range 10 {
			acceptOn(t, other, noon())
		}
		assert.Empty(t, duplicates)
		require.NoError(t, c.end(tx))
		first, second := next(t, duplicates), next(t, duplicates)
		assert.Equal(t, c.duplicate, first && second)
		assert.Equal(t, c.err == nil, first || second, "one of them is new at most")
		_ = tx.Rollback(t.Context())
	}
	assert.Equal(t, 32, count(t, d, "SELECT count(*) FROM river_job"))
}

// TestPurgeKeepsKeysForRetention ages digests and the times of objects.
func TestPurgeKeepsKeysForRetention(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	old, stored := acceptOn(t, inbox, time.Time{}), acceptOn(t, inbox, time.Time{})
	d.exec(t, "DELETE FROM river_job WHERE id = $1", d.job(t, old))
	d.exec(t, "INSERT INTO inbox_ledger SELECT gen_random_uuid(), 0, now(), now() FROM generate_series(1, 2500)")
	d.exec(t, "INSERT INTO inbox_newest VALUES ('one', now(), now())")
	age := func(days int) {
		t.Helper()
		d.exec(t, fmt.Sprintf("UPDATE inbox_ledger SET created_at = now() - interval '%[1]d days', accepted_at = now() - interval '%[1]d days'", days))
		d.exec(t, fmt.Sprintf("UPDATE inbox_newest SET noted_at = now() - interval '%d days'", days))
		require.NoError(t, inbox.Purge(t.Context()))
	}
	age(33)
	assert.Equal(t, 1+2502, count(t, d, "SELECT (SELECT count(*) FROM inbox_newest) + count(*) FROM inbox_ledger"), "without a new event, no key is old")
	acceptOn(t, inbox, noon())
	age(30)
	acceptAgain(t, inbox, old)
	fresh := acceptOn(t, inbox, time.Now())
	d.exec(t, "UPDATE inbox_ledger SET created_at = now() - interval '33 days', accepted_at = now() - interval '33 days' WHERE digest <> inbox_key_digest($1)", fresh.Key.String())
	d.exec(t, "UPDATE inbox_newest SET noted_at = now() - interval '33 days'")
	require.NoError(t, inbox.Purge(t.Context()))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM inbox_newest"))
	assert.Equal(t, 3, count(t, d, "SELECT count(*) FROM inbox_ledger"), "an event with a job is known")
	acceptAgain(t, inbox, stored)
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
	require.NoError(t, idle.Purge(t.Context()))
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
		require.NoError(t, inbox.Purge(t.Context()))
	}
	for _, event := range all {
		acceptAgain(t, inbox, event)
	}
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
	require.ErrorIs(t, err, engine.ErrCheckpointHeld)
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
