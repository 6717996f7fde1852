package riverinbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// An event that was settled, handled or discarded, leaves a digest of its key in the
// ledger, in the partition of its own day: that of its creation, in UTC, which is the same
// whenever and however the event comes again. So a digest is unique within its day, and an
// old day is dropped as a whole.
//
// An event whose day has no partition stays a row of the inbox, in stateDone, until
// [Inbox.moveSettled] has made one. That of an event which does not say when it was
// created, or says something that cannot be, is never made; its row is deleted by
// [Inbox.purge].

// digestOf is the digest of a key, half of its SHA-256. It is made here and nowhere else.
func digestOf(key string) string {
	return "encode(substr(sha256(convert_to(" + key + ", 'UTF8')), 1, 16), 'hex')::uuid"
}

// dayOf is the day of a row with created_at.
func dayOf(row string) string { return "(" + row + ".created_at AT TIME ZONE 'UTC')::date" }

// hasDay reports that the ledger has a partition for a row with created_at.
func hasDay(row string) string {
	return "to_regclass('{ledger}_' || to_char(" + row + ".created_at AT TIME ZONE 'UTC', '" + partitionForm + "')) IS NOT NULL"
}

// inLedger reports that a row with key and created_at was settled. A time that is
// rounded in one place, and exact in another, may be one of the next day. It is counted
// so that it is looked up in the index, whatever plan was made when the ledger was small.
// The condition within is on l.day: see [daysOf].
func inLedger(row, within string) string {
	return `(SELECT count(*) FROM {ledger} l WHERE l.digest = ` + digestOf(row+".key") + `
		AND l.day >= coalesce(((` + row + `.created_at - interval '1 minute') AT TIME ZONE 'UTC')::date, '-infinity')
		AND l.day <= coalesce(((` + row + `.created_at + interval '1 minute') AT TIME ZONE 'UTC')::date, 'infinity')` + within + `) > 0`
}

// daysOf returns the first and the last day on which the ledger can have one of these rows.
// They say nothing that inLedger does not say of each row, but PostgreSQL knows them before it
// begins: it prepares the partitions of these days and not all of a month, which takes longer
// than looking into them.
func daysOf(rows []*newRow) (first, last pgtype.Date) {
	for n, r := range rows {
		if r.delivery.CreatedAt.IsZero() {
			return pgtype.Date{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, pgtype.Date{InfinityModifier: pgtype.Infinity, Valid: true}
		}
		created := r.delivery.CreatedAt.UTC()
		if from := created.Add(-time.Minute); n == 0 || from.Before(first.Time) {
			first = pgtype.Date{Time: from, Valid: true}
		}
		if to := created.Add(time.Minute); n == 0 || to.After(last.Time) {
			last = pgtype.Date{Time: to, Valid: true}
		}
	}
	return first, last
}

// settling are the parts of a statement that settle the rows which a condition selects.
// These are in settled and in kept.
func settling(condition string) string {
	return `target AS MATERIALIZED (SELECT key, ` + hasDay("e") + ` AS has_day FROM {inbox} e WHERE ` + condition + `
	), settled AS (
		DELETE FROM {inbox} e USING target t WHERE e.key = t.key AND t.has_day AND ` + condition + `
		RETURNING e.key, e.subject, e.object, e.created_at
	), kept AS (
		UPDATE {inbox} e SET state = 3, due_at = clock_timestamp(), body = NULL, body_day = NULL, reason = NULL, error = NULL
		FROM target t WHERE e.key = t.key AND NOT t.has_day AND ` + condition + `
		RETURNING e.key, e.subject, e.object, e.created_at
	), noted AS (
		INSERT INTO {ledger} (day, digest) SELECT ` + dayOf("s") + `, ` + digestOf("s.key") + ` FROM settled s
		ON CONFLICT DO NOTHING
	)`
}

// moving selects the settled rows after a position, in the order of the index.
const moving = `FROM (SELECT key, due_at, seq, created_at FROM {inbox}
	WHERE state = 3 AND (due_at, seq) > ($1, $2) ORDER BY due_at, seq LIMIT $3) e`

// findSettled finds the end of the part, and the days in it that need a partition.
var findSettled = `SELECT coalesce(max(due_at), 'epoch'), coalesce((array_agg(seq ORDER BY due_at DESC, seq DESC))[1], 0), count(*),
	coalesce(array_agg(DISTINCT ` + dayOf("e") + `) FILTER (WHERE NOT ` + hasDay("e") + ` AND created_at BETWEEN $4 AND $5), '{}') ` + moving

var moveFound = `WITH target AS MATERIALIZED (SELECT key ` + moving + ` WHERE ` + hasDay("e") + `), moved AS (
		DELETE FROM {inbox} e USING target t WHERE e.key = t.key AND e.state = 3 RETURNING e.key, e.created_at
	) INSERT INTO {ledger} (day, digest) SELECT ` + dayOf("m") + `, ` + digestOf("m.key") + ` FROM moved m ON CONFLICT DO NOTHING`

// moveSettled moves the settled rows of days that had no partition to the ledger, a few at a
// time.
func (i *Inbox) moveSettled(ctx context.Context) error {
	const few = 1000
	at, seq := time.Unix(0, 0).UTC(), int64(0)
	for found := few; found == few && !i.life.Stopped(); {
		found = 0
		err := i.alone(ctx, "ledger", func(tx pgx.Tx) error {
			var days []time.Time
			since, until := i.ledgerDays(time.Now())
			start, startSeq := at, seq
			err := tx.QueryRow(ctx, i.sql(findSettled), start, startSeq, few, since, until).Scan(&at, &seq, &found, &days)
			if err != nil {
				return err
			}
			if err := i.makePartitions(ctx, tx, ledgerTable, days); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, i.sql(moveFound), start, startSeq, few)
			return err
		})
		if err != nil {
			return fmt.Errorf("riverinbox: %w", err)
		}
	}
	return nil
}

// ledgerDays returns from when to when an event is created whose key goes to the ledger.
// What is older than Retention the platform does not repeat.
func (i *Inbox) ledgerDays(now time.Time) (since, until time.Time) {
	today := now.UTC().Truncate(day)
	return today.Add(-i.retentionDays()), today.Add((daysAhead + 1) * day)
}

func (i *Inbox) retentionDays() time.Duration {
	return (i.config.Retention + day - 1).Truncate(day)
}
