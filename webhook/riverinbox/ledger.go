package riverinbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// The ledger stores a digest of each accepted key, in a partition for the UTC day of the event's
// creation. A repeated event has the same day, so a digest is unique in its partition, and the
// inbox drops old partitions as a whole. inbox_undated stores the digests of other days, and every
// accept searches it.
const (
	day        = 24 * time.Hour
	dayForm    = "20060102" // in the name of a partition
	daysAhead  = 3
	keepEvery  = 10 * time.Minute
	cannotKeep = "webhook inbox cannot maintain its ledger"
)

// dayOf returns the day of an event. It returns nil if the ledger has no partition for the day. It
// also returns nil within a minute of midnight, because the platform may round the time once.
func (i *Inbox) dayOf(created time.Time) *time.Time {
	at := created.UTC().Truncate(day)
	into := created.UTC().Sub(at)
	if days := i.days.Load(); days == nil || !slices.Contains(*days, at) || into < time.Minute || into > day-time.Minute {
		return nil
	}
	return &at
}

// keep creates and drops partitions, and deletes other old rows. It needs the rights of the owner of
// the tables. One process drops at a time.
func (i *Inbox) keep(ctx context.Context) error {
	const name = "inbox: ledger"
	made := i.makeDays(ctx)
	_, err := i.ClaimCheckpoint(ctx, name, i.name, time.Minute)
	if err == nil {
		err = cmp.Or(i.dropDays(ctx), i.ReleaseCheckpoint(ctx, name, i.name))
	}
	if errors.Is(err, reconcile.ErrCheckpointHeld) {
		err = nil
	}
	return cmp.Or(made, err)
}

func (i *Inbox) makeDays(ctx context.Context) error {
	_, err := i.exec(ctx, "SELECT {s}.inbox_days($1, $2)", int(inboxkit.Retention/day), daysAhead)
	_, unknown := i.ledgerDays(ctx)
	return cmp.Or(err, unknown)
}

// ledgerDays returns the days of the partitions, and stores them for dayOf.
func (i *Inbox) ledgerDays(ctx context.Context) (days []time.Time, err error) {
	names, err := collect(ctx, i, pgx.RowTo[string], `SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
		WHERE inhparent = to_regclass('{s}.inbox_ledger') AND NOT inhdetachpending ORDER BY relname`)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if d, err := time.Parse(dayForm, strings.TrimPrefix(name, "inbox_ledger_")); err == nil {
			days = append(days, d)
		}
	}
	i.days.Store(&days)
	return days, nil
}

func partition(d time.Time) string { return "{s}.inbox_ledger_" + d.Format(dayForm) }

// dropDays drops the partitions of days before over, and completes interrupted drops. Accepts do
// not wait for it.
func (i *Inbox) dropDays(ctx context.Context) error {
	days, err := i.ledgerDays(ctx)
	if err != nil {
		return err
	}
	over, err := i.over(ctx, days)
	if err != nil {
		return err
	}
	interrupted, err := collect(ctx, i, pgx.RowTo[string], `SELECT inhrelid::regclass::text FROM pg_inherits
		WHERE inhparent = to_regclass('{s}.inbox_ledger') AND inhdetachpending`)
	for _, partition := range interrupted {
		err = cmp.Or(err, i.detach(ctx, partition, "FINALIZE"))
	}
	for _, d := range days {
		if d.Before(over) {
			err = cmp.Or(err, i.detach(ctx, partition(d), "CONCURRENTLY"))
		}
	}
	return cmp.Or(err, i.dropDetached(ctx), i.purge(ctx, over))
}

func (i *Inbox) detach(ctx context.Context, partition, how string) error {
	_, err := i.exec(ctx, "ALTER TABLE {s}.inbox_ledger DETACH PARTITION "+partition+" "+how)
	return err
}

// dropDetached drops the tables of detached days, also of a process that ended after it detached
// them. A new day is attached in the transaction that creates its table.
func (i *Inbox) dropDetached(ctx context.Context) error {
	names, err := collect(ctx, i, pgx.RowTo[string], `SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition
		AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('{s}.inbox_ledger')) AND starts_with(relname, 'inbox_ledger_')`)
	for _, name := range names {
		if d, unknown := time.Parse(dayForm, strings.TrimPrefix(name, "inbox_ledger_")); unknown == nil {
			_, failed := i.exec(ctx, "DROP TABLE IF EXISTS "+partition(d))
			err = cmp.Or(err, failed)
		}
	}
	return err
}

// over returns the first day to keep. If the clock of the database is ahead, the day of the newest
// event counts, or the clock of this process.
func (i *Inbox) over(ctx context.Context, days []time.Time) (over time.Time, err error) {
	today, err := one[time.Time](ctx, i, "SELECT (now() AT TIME ZONE 'UTC')::date")
	newest := time.Now().UTC().Truncate(day)
	for _, d := range slices.Backward(days) {
		filled, unknown := one[bool](ctx, i, "SELECT EXISTS (SELECT FROM "+partition(d)+")")
		if err = cmp.Or(err, unknown); filled {
			newest = d
			break
		}
	}
	return slices.MinFunc([]time.Time{newest, today}, time.Time.Compare).Add(-inboxkit.Retention), err
}

// purge deletes undated digests, discarded events and times of objects from before a day, in small transactions.
func (i *Inbox) purge(ctx context.Context, over time.Time) (err error) {
	const few = 1000
	for _, statement := range []string{
		`DELETE FROM {s}.inbox_undated WHERE digest IN (SELECT digest FROM {s}.inbox_undated WHERE accepted_at < $1 LIMIT $2)`,
		`DELETE FROM {s}.inbox_discarded WHERE digest IN (SELECT digest FROM {s}.inbox_discarded WHERE at < $1 LIMIT $2)`,
		`DELETE FROM {s}.inbox_newest WHERE object IN (SELECT object FROM {s}.inbox_newest WHERE noted_at < $1 LIMIT $2)`,
	} {
		for deleted := int64(few); err == nil && deleted == few && !i.life.Stopped(); {
			deleted, err = i.exec(ctx, statement, over, few)
		}
	}
	return err
}

// Missing implements [reconcile.Inbox].
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	digests := make([]pgtype.UUID, len(keys))
	for n, key := range keys {
		digests[n] = keyDigest(key.String())
	}
	found, err := read(ctx, i, pgx.RowTo[[16]byte], `SELECT digest FROM {s}.inbox_ledger WHERE digest = ANY ($1)
		UNION ALL SELECT digest FROM {s}.inbox_undated WHERE digest = ANY ($1)`, digests)
	if err != nil {
		return nil, err
	}
	known := make(map[[16]byte]bool, len(found))
	for _, digest := range found {
		known[digest] = true
	}
	return inboxkit.Missing(keys, func(key webhook.Key) bool { return known[keyDigest(key.String()).Bytes] }), nil
}

// finished returns the digests of an event ID without jobs, and the times at which the events were
// discarded.
const finished = `SELECT known.at FROM (
		SELECT digest, max(at) AS at FROM (
			SELECT digest, NULL::timestamptz AS at FROM {s}.inbox_ledger UNION ALL SELECT digest, NULL FROM {s}.inbox_undated
			UNION ALL SELECT digest, at FROM {s}.inbox_discarded
		) every WHERE digest BETWEEN $1 AND $2 GROUP BY digest
	) known WHERE NOT EXISTS (SELECT FROM {s}.inbox_dead d WHERE d.digest = known.digest) AND NOT EXISTS (
		SELECT FROM {s}.river_job j WHERE j.state = 'retryable' AND split_part(j.args->>'key', '/', 3) = $3
			AND {s}.inbox_key_digest(j.args->>'key') = known.digest
	) AND NOT EXISTS (
		SELECT FROM {s}.river_job j WHERE j.state IN ('available', 'pending', 'running', 'scheduled') AND split_part(j.args->>'key', '/', 3) = $3
			AND {s}.inbox_key_digest(j.args->>'key') = known.digest
	)`

// Finished implements [engine.Engine]. It knows the times of discarded events only. An event
// deleted in River by a person counts as discarded.
func (i *Inbox) Finished(ctx context.Context, eventID string) ([]engine.Finished, error) {
	key := webhook.Key{EventID: eventID}.String()
	first := keyDigest(key)
	last := first
	copy(first.Bytes[8:], make([]byte, 8))
	copy(last.Bytes[8:], bytes.Repeat([]byte{0xff}, 8))
	return read(ctx, i, func(row pgx.CollectableRow) (f engine.Finished, err error) {
		var at *time.Time
		if err := row.Scan(&at); err != nil || at == nil {
			return f, err
		}
		return engine.Finished{Discarded: true, At: at.UTC()}, nil
	}, finished, first, last, strings.Split(key, "/")[2])
}

// ClaimCheckpoint implements [reconcile.Inbox]. It ignores a claim with an end more than a day
// too late, from before a correction of the clock.
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	return i.checkpoint(ctx, `INSERT INTO {s}.inbox_checkpoints AS c (name, holder, until)
		VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE c.holder = excluded.holder OR c.until <= clock_timestamp() OR c.until > clock_timestamp() + $3::interval + interval '1 day'
		RETURNING state`, name, holder, ttl)
}

// SaveCheckpoint implements [reconcile.Inbox].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	_, err := i.checkpoint(ctx, `UPDATE {s}.inbox_checkpoints SET state = $4, until = clock_timestamp() + $3::interval
		WHERE name = $1 AND holder = $2 AND until > clock_timestamp() RETURNING state`, name, holder, ttl, state)
	return err
}

// checkpoint changes a checkpoint unless another holder has claimed it.
func (i *Inbox) checkpoint(ctx context.Context, statement string, args ...any) ([]byte, error) {
	states, err := read(ctx, i, pgx.RowTo[[]byte], statement, args...)
	switch {
	case err != nil:
		return nil, err
	case len(states) == 0:
		return nil, reconcile.ErrCheckpointHeld
	}
	return states[0], nil
}

// ReadCheckpoint returns the last saved state, or nil. It claims nothing.
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	states, err := collect(ctx, i, pgx.RowTo[[]byte], "SELECT state FROM {s}.inbox_checkpoints WHERE name = $1", name)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	return states[0], nil
}

// ReleaseCheckpoint implements [reconcile.Inbox]. It works after Close.
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	_, err := i.exec(ctx, "UPDATE {s}.inbox_checkpoints SET holder = '', until = '-infinity' WHERE name = $1 AND holder = $2", name, holder)
	return err
}
