package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// An accepted event leaves a digest of its key in the ledger, in the partition of the day of its
// creation, in UTC, which is the same whenever and however the event comes again. So a digest is
// unique within its day, and an old day is dropped as a whole. The digest of an event without such
// a day is in the table of the undated ones, where every accept looks.

const day = 24 * time.Hour

// dayForm is the form of a day in the name of a partition.
const dayForm = "20060102"

// daysAhead is for how many days to come there are partitions: a weekend is less.
const daysAhead = 3

// keepEvery is how often the ledger is kept.
const keepEvery = 10 * time.Minute

const cannotKeep = "webhook inbox cannot keep its ledger"

// days are those that the ledger has partitions for.
type days struct {
	there atomic.Pointer[map[time.Time]bool]
}

// of returns the day of an event. It is nil if the ledger has no partition for it, and within a
// minute of midnight: a time that is rounded in one place may be exact in another.
func (d *days) of(created time.Time) *time.Time {
	there, at := d.there.Load(), created.UTC().Truncate(day)
	into := created.UTC().Sub(at)
	if there == nil || !(*there)[at] || into < time.Minute || into > day-time.Minute {
		return nil
	}
	return &at
}

// keep makes the partitions of the days to come, drops those whose time is over, and deletes
// what else has been there for so long. One replica does it at a time. It needs the rights of
// the owner of the tables; without them all digests are undated.
func (i *Inbox) keep(ctx context.Context) error {
	const name = "inbox: ledger"
	_, err := i.ClaimCheckpoint(ctx, name, i.name, time.Minute)
	switch {
	case err == nil:
		err = errors.Join(i.makeDays(ctx), i.dropDays(ctx), i.ReleaseCheckpoint(ctx, name, i.name))
	case errors.Is(err, reconcile.ErrCheckpointHeld):
		err = nil
	}
	_, unknown := i.ledgerDays(ctx) // another replica may have made some
	return errors.Join(err, unknown)
}

// ledgerDays returns the days that the ledger has partitions for, and remembers them.
func (i *Inbox) ledgerDays(ctx context.Context) ([]time.Time, error) {
	names, err := collect(ctx, i, pgx.RowTo[string], `SELECT relname FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
		WHERE inhparent = to_regclass('{s}.inbox_ledger') AND NOT inhdetachpending ORDER BY relname`)
	if err != nil {
		return nil, err
	}
	var all []time.Time
	there := map[time.Time]bool{}
	for _, name := range names {
		if d, err := time.Parse(dayForm, strings.TrimPrefix(name, "inbox_ledger_")); err == nil {
			all = append(all, d)
			there[d] = true
		}
	}
	i.days.there.Store(&there)
	return all, nil
}

func (i *Inbox) partition(d time.Time) string {
	return "{s}.inbox_ledger_" + d.Format(dayForm)
}

// makeDays makes partitions for the days from which events can come. Attaching one takes a lock
// that accepts do not wait for.
func (i *Inbox) makeDays(ctx context.Context) error {
	there, err := i.ledgerDays(ctx)
	if err != nil {
		return err
	}
	have := map[time.Time]bool{}
	for _, d := range there {
		have[d] = true
	}
	today, err := i.today(ctx)
	if err != nil {
		return err
	}
	var script strings.Builder
	for d := today.Add(-engine.DefaultRetention); !d.After(today.Add(daysAhead * day)); d = d.Add(day) {
		if !have[d] {
			fmt.Fprintf(&script, `CREATE TABLE %[1]s (LIKE {s}.inbox_ledger INCLUDING ALL);
				ALTER TABLE {s}.inbox_ledger ATTACH PARTITION %[1]s FOR VALUES FROM ('%[2]s') TO ('%[3]s');`,
				i.partition(d), d.Format(time.DateOnly), d.Add(day).Format(time.DateOnly))
		}
	}
	if script.Len() > 0 {
		_, err = i.exec(ctx, script.String())
	}
	return err
}

// today is the day of the database.
func (i *Inbox) today(ctx context.Context) (time.Time, error) {
	return one[time.Time](ctx, i, "SELECT (now() AT TIME ZONE 'UTC')::date")
}

// dropDays drops the days of the ledger whose events the platform does not repeat any more.
// Neither detaching one nor dropping it makes accepts wait.
func (i *Inbox) dropDays(ctx context.Context) error {
	days, err := i.ledgerDays(ctx)
	if err != nil {
		return err
	}
	over, err := i.over(ctx, days)
	if err != nil {
		return err
	}
	if err := i.finishDetaching(ctx); err != nil {
		return err
	}
	for _, d := range days {
		if !d.Before(over) {
			break
		}
		if err := i.drop(ctx, i.partition(d), "CONCURRENTLY"); err != nil {
			return err
		}
	}
	return i.purge(ctx, over)
}

func (i *Inbox) drop(ctx context.Context, partition, detach string) error {
	if _, err := i.exec(ctx, "ALTER TABLE {s}.inbox_ledger DETACH PARTITION "+partition+" "+detach); err != nil {
		return err
	}
	_, err := i.exec(ctx, "DROP TABLE "+partition)
	return err
}

// finishDetaching ends what was interrupted.
func (i *Inbox) finishDetaching(ctx context.Context) error {
	partitions, err := collect(ctx, i, pgx.RowTo[string], `SELECT inhrelid::regclass::text FROM pg_inherits
		WHERE inhparent = to_regclass('{s}.inbox_ledger') AND inhdetachpending`)
	for _, partition := range partitions {
		if err := i.drop(ctx, partition, "FINALIZE"); err != nil {
			return err
		}
	}
	return err
}

// over is the first day that is kept. A clock that is ahead ends no day: the newest event of the
// ledger, whose time is the platform's, has to be as far away.
func (i *Inbox) over(ctx context.Context, days []time.Time) (time.Time, error) {
	today, err := i.today(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for _, newest := range slices.Backward(days) {
		switch filled, err := one[bool](ctx, i, "SELECT EXISTS (SELECT FROM "+i.partition(newest)+")"); {
		case err != nil:
			return time.Time{}, err
		case filled && newest.Before(today):
			return newest.Add(-engine.DefaultRetention), nil
		case filled:
			return today.Add(-engine.DefaultRetention), nil
		}
	}
	return time.Time{}, nil
}

// purge deletes undated digests, and times of objects, from before a day, a few at a time, so
// that nothing waits for it for long.
func (i *Inbox) purge(ctx context.Context, over time.Time) error {
	const few = 1000
	for _, statement := range []string{
		`DELETE FROM {s}.inbox_undated WHERE digest IN (SELECT digest FROM {s}.inbox_undated WHERE accepted_at < $1 LIMIT $2)`,
		`DELETE FROM {s}.inbox_newest WHERE object IN (SELECT object FROM {s}.inbox_newest WHERE noted_at < $1 LIMIT $2)`,
	} {
		for deleted := int64(few); deleted == few && !i.life.Stopped(); {
			var err error
			if deleted, err = i.exec(ctx, statement, over, few); err != nil {
				return err
			}
		}
	}
	return nil
}
