package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	ledgerTable = "dispensary_inbox_ledger"
	bodiesTable = "dispensary_inbox_bodies"
)

// A partition has the name of its table, and its day.
const (
	partitionForm   = "YYYYMMDD" // for PostgreSQL
	partitionLayout = "20060102" // for Go
)

const day = 24 * time.Hour

// daysAhead is for how many days to come there are partitions: a weekend is less.
const daysAhead = 3

// ddlPatience is how long a change of a table waits for its lock, and with it all who
// come after: a transaction that was left open must not keep others from accepting.
const ddlPatience = 20 * time.Millisecond

// keepPartitions makes the partitions of the days to come, moves what is settled to
// those there are, and drops those whose time is over. It needs the rights of the owner
// of the tables.
func (i *Inbox) keepPartitions(ctx context.Context) error {
	var today time.Time
	err := i.alone(ctx, "ledger", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT date_trunc('day', now() AT TIME ZONE 'UTC')").Scan(&today); err != nil {
			return err
		}
		var days []time.Time
		for n := range daysAhead + 1 {
			days = append(days, today.Add(time.Duration(n)*day))
		}
		return i.makeAllPartitions(ctx, tx, days)
	})
	if err != nil {
		err = fmt.Errorf("riverinbox: %w", err)
	}
	if today.IsZero() { // another replica does it, or the database is away
		return err
	}
	// Partitions that could not be made, because of a transaction that is writing, are made the
	// next time: there are days until they are needed.
	return errors.Join(err, i.moveSettled(ctx),
		i.dropPartitions(ctx, ledgerTable, today.Add(-i.retentionDays()), nil),
		i.dropPartitions(ctx, bodiesTable, today.Add(-day), i.takeBodies))
}

// makeAllPartitions makes those of both tables for days that have none.
func (i *Inbox) makeAllPartitions(ctx context.Context, tx pgx.Tx, days []time.Time) error {
	if err := i.makePartitions(ctx, tx, ledgerTable, days); err != nil {
		return err
	}
	return i.makePartitions(ctx, tx, bodiesTable, days)
}

// makePartitions makes partitions of a table for days that have none. For that it waits until
// no transaction writes to the table, for [ddlPatience]: a statement writes to the partitions
// that were there when it began, but would find the name of one that was made since.
func (i *Inbox) makePartitions(ctx context.Context, tx pgx.Tx, table string, days []time.Time) error {
	there, err := i.partitionDays(ctx, tx, table)
	if err != nil {
		return err
	}
	have := map[time.Time]bool{}
	for _, d := range there {
		have[d] = true
	}
	parent := i.config.Tables.in(table)
	for _, d := range days {
		if have[d] {
			continue
		}
		name := parent + "_" + d.Format(partitionLayout)
		_, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %[1]d; LOCK TABLE ONLY %[3]s IN SHARE ROW EXCLUSIVE MODE;
			CREATE TABLE %[2]s (LIKE %[3]s INCLUDING ALL);
			ALTER TABLE %[3]s ATTACH PARTITION %[2]s FOR VALUES IN ('%[4]s'); SET LOCAL lock_timeout TO DEFAULT`,
			ddlPatience.Milliseconds(), name, parent, d.Format(time.DateOnly)))
		if err != nil {
			return fmt.Errorf("making %s: %w", name, err)
		}
	}
	return nil
}

type queryable interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}

// partitionDays returns the days that a table has partitions for.
func (i *Inbox) partitionDays(ctx context.Context, q queryable, table string) ([]time.Time, error) {
	rows, err := q.Query(ctx, `SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
		WHERE inhparent = to_regclass($1) ORDER BY relname`, i.config.Tables.in(table))
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var days []time.Time
	for _, name := range names {
		if d, err := time.Parse(partitionLayout, strings.TrimPrefix(name, table+"_")); err == nil {
			days = append(days, d)
		}
	}
	return days, nil
}

// dropPartitions drops the partitions of the days before one, after clear has taken
// what is still needed out of each; clear may be nil. One that a transaction has read
// which is still open is left for later.
func (i *Inbox) dropPartitions(ctx context.Context, table string, before time.Time, clear func(context.Context, time.Time) error) error {
	days, err := i.partitionDays(ctx, i.pool, table)
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	for _, d := range days {
		if !d.Before(before) {
			continue
		}
		if clear != nil {
			if err := clear(ctx, d); err != nil {
				return err
			}
		}
		err := i.alone(ctx, "ledger", func(tx pgx.Tx) error { return i.dropPartition(ctx, tx, table, d) })
		if err != nil && !contended(err) {
			return fmt.Errorf("riverinbox: %w", err)
		}
	}
	return nil
}

func (i *Inbox) dropPartition(ctx context.Context, tx pgx.Tx, table string, d time.Time) error {
	name := i.config.Tables.in(table) + "_" + d.Format(partitionLayout)
	_, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d; LOCK TABLE ONLY %s, ONLY %s IN ACCESS EXCLUSIVE MODE",
		ddlPatience.Milliseconds(), i.config.Tables.in(table), name))
	if err != nil {
		return err
	}
	if table == bodiesTable {
		var needed bool
		err := tx.QueryRow(ctx, i.sql("SELECT EXISTS (SELECT FROM {inbox} WHERE body_day = $1)"), d).Scan(&needed)
		if err != nil || needed {
			return err
		}
	}
	_, err = tx.Exec(ctx, "DROP TABLE "+name)
	return err
}

// takeBodies moves the bodies of a day whose events are still held, dead letters as a
// rule, into their rows.
func (i *Inbox) takeBodies(ctx context.Context, d time.Time) error {
	const few = 200
	for after, found := "", few; found == few && !i.life.Stopped(); {
		found = 0
		err := i.alone(ctx, "ledger", func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, i.sql(`WITH held AS MATERIALIZED (
					SELECT key, seq FROM {inbox} WHERE body_day = $1 AND key > $2 ORDER BY key LIMIT $3 FOR UPDATE SKIP LOCKED
				) UPDATE {inbox} e SET body = coalesce(e.body, b.body), body_day = NULL FROM held, {bodies} b
				WHERE e.key = held.key AND b.day = $1 AND b.seq = held.seq RETURNING e.key`), d, after, few)
			if err != nil {
				return err
			}
			keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
			found = len(keys)
			for _, key := range keys {
				after = max(after, key)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("riverinbox: %w", err)
		}
	}
	return nil
}

// storedBody is the body of an event e. It is in the bodies of the day on which the event was
// accepted. It is in the row of the event if that day has no partition, or no longer has one: see
// [Inbox.takeBodies].
const storedBody = "coalesce(e.body, (SELECT b.body FROM {bodies} b WHERE b.day = e.body_day AND b.seq = e.seq))"
