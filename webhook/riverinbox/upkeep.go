package riverinbox

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// overdue is how long after its time an event may wait without a job, in leases.
const overdue = 2

// watch looks, every half of a lease, for events that no job will come for.
func (i *Inbox) watch() {
	i.every(i.config.Lease/2, "webhook inbox cannot look after its events", i.insertForgottenJobs)
}

// keep keeps the partitions of the tables that have some.
func (i *Inbox) keep() {
	i.every(10*time.Minute, "webhook inbox cannot keep its partitions", i.keepPartitions)
}

// retain deletes, every hour, the keys of what was handled long ago.
func (i *Inbox) retain() { i.every(time.Hour, "webhook inbox cannot purge", i.purge) }

// every calls f at once and then about every so often. The replicas do not all
// come at the same time.
func (i *Inbox) every(d time.Duration, complaint string, f func(context.Context) error) {
	for {
		if err := f(i.life.Context()); err != nil && !i.life.Stopped() {
			i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, complaint, slog.String("reason", err.Error()))
		}
		timer := time.NewTimer(d - rand.N(d/4))
		select {
		case <-timer.C:
		case <-i.life.Stopping():
			timer.Stop()
			return
		}
	}
}

// forgotten finds partitions without a worker and without a job: those whose worker
// died, because the job that it had counts as running until River rescues it,
// and those whose job is gone, because it was fetched by a process that died
// before it claimed the event, or deleted by people. Other events of an
// ordering key come with the first.
const forgotten = `SELECT subject, key FROM (
		(SELECT e.key, e.subject FROM {claims} c JOIN {inbox} e ON e.key = c.event WHERE c.until < now() LIMIT $4)
		UNION
		(SELECT key, subject FROM {inbox} w WHERE state = 2 AND due_at < now() AND ` + unclaimed + ` ORDER BY due_at LIMIT $4)
		UNION
		(SELECT key, subject FROM {inbox} w WHERE state = 1 AND due_at < now() - $3::interval AND ` + unclaimed + `
			AND NOT EXISTS (SELECT FROM {inbox} o WHERE o.subject = w.subject AND o.state < 3 AND (o.order_at, o.seq) < (w.order_at, w.seq))
			ORDER BY due_at LIMIT $4)
	) e WHERE NOT EXISTS (SELECT FROM {river_job} j WHERE j.kind = $1 AND j.queue = $2
		AND j.state IN ('available', 'pending', 'retryable', 'scheduled') AND j.scheduled_at < now() + $3::interval
		AND j.args @> CASE WHEN e.subject IS NULL THEN jsonb_build_object('event', e.key) ELSE jsonb_build_object('subject', e.subject) END)`

// unclaimed is a condition for events in whose partition no worker is, or none any more.
const unclaimed = "NOT EXISTS (SELECT FROM {claims} c WHERE c.subject = coalesce(w.subject, w.key) AND c.until >= now())"

// insertForgottenJobs inserts jobs for events that were forgotten. One replica does it at
// a time.
func (i *Inbox) insertForgottenJobs(ctx context.Context) error {
	const most = 200
	return i.alone(ctx, "watch", func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, i.sql(forgotten), partition{}.Kind(), Queue, overdue*i.config.Lease, most)
		if err != nil {
			return fmt.Errorf("riverinbox: %w", err)
		}
		partitions, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (partition, error) {
			var r newRow
			var subject *string
			err := row.Scan(&subject, &r.key)
			if subject != nil {
				r.subject = *subject
			}
			return r.partition(), err
		})
		if err != nil {
			return fmt.Errorf("riverinbox: %w", err)
		}
		return i.insertJobs(ctx, tx, partitions)
	})
}

// purge deletes a little at a time, so that nothing waits for it for long.
func (i *Inbox) purge(ctx context.Context) error {
	const few = 1000
	for _, statement := range []string{
		`DELETE FROM {inbox} WHERE key IN (SELECT key FROM {inbox} WHERE state = 3 AND due_at < now() - $1::interval LIMIT $2)`,
		`DELETE FROM {newest} WHERE object IN (SELECT object FROM {newest} WHERE noted_at < now() - $1::interval LIMIT $2)`,
		`DELETE FROM {claims} WHERE subject IN (SELECT subject FROM {claims} WHERE until < now() - $1::interval LIMIT $2)`,
	} {
		for deleted := int64(few); deleted == few && !i.life.Stopped(); {
			deleted = 0
			err := i.alone(ctx, "purge", func(tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, i.sql(statement), i.config.Retention, few)
				deleted = tag.RowsAffected()
				return err
			})
			if err != nil {
				return fmt.Errorf("riverinbox: %w", err)
			}
		}
	}
	return nil
}

// alone runs f in a transaction, unless another replica does.
func (i *Inbox) alone(ctx context.Context, what string, f func(pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, transactionTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, i.pool, func(tx pgx.Tx) error {
		var mine bool
		err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtextextended('dispensary_inbox ' || $1 || ' ' || $2, 0))",
			what, i.config.Tables.Schema).Scan(&mine)
		if err != nil || !mine {
			return err
		}
		return f(tx)
	})
}

// CheckWrite implements [engine.Engine]. It writes a row of the table of checkpoints, which all
// processes share.
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	_, err := i.pool.Exec(ctx, i.sql(`INSERT INTO {checkpoints} (name, holder, until) VALUES ('write check', '', '-infinity')
		ON CONFLICT (name) DO UPDATE SET until = excluded.until`))
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	return nil
}

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	if i.life.Stopped() {
		return s, webhook.ErrInboxClosed
	}
	var oldest *time.Time
	err := i.pool.QueryRow(ctx, i.sql(`SELECT count(*) FILTER (WHERE state < 3 AND c.event IS NULL), count(*) FILTER (WHERE state < 3 AND c.event IS NOT NULL),
		count(*) FILTER (WHERE state = 4), min(received_at) FILTER (WHERE state < 3) FROM `+claimedEvents+` WHERE state <> 3`),
	).Scan(&s.Waiting, &s.Running, &s.Dead, &oldest)
	if err != nil {
		return engine.Stats{}, fmt.Errorf("riverinbox: %w", err)
	}
	s.Overdue = i.worker.Overdue()
	if oldest != nil {
		s.Oldest = oldest.UTC()
	}
	return s, nil
}
