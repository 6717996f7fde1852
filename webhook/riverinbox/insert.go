package riverinbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// insertQuery stores the events that are new and returns their keys. ON CONFLICT
// alone would wait for every transaction that has changed the row of an event: one
// that can be seen to be there is left out before. It is counted so that it is
// looked up in the index, whatever plan was made when the table was small.
//
// Where the bodies have no partition for today, a body goes into the row.
var insertQuery = `WITH new AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[],
			$6::timestamptz[], $7::text[], $8::text[], $9::bytea[])
		AS new (key, type, clinic_id, created_at, received_at, order_at, subject, object, body)
	), today AS MATERIALIZED (
		SELECT CASE WHEN to_regclass('{bodies}_' || to_char(now() AT TIME ZONE 'UTC', '` + partitionForm + `')) IS NOT NULL
			THEN (now() AT TIME ZONE 'UTC')::date END AS day
	), fresh AS (
		INSERT INTO {inbox} (key, type, clinic_id, created_at, received_at, order_at, subject, object, state, due_at, body, body_day)
		SELECT key, type, clinic_id, created_at, received_at, order_at, nullif(subject, ''), nullif(object, ''), 1, now(),
			CASE WHEN day IS NULL THEN body END, day
		FROM new, today WHERE (SELECT count(*) FROM {inbox} e WHERE e.key = new.key) = 0 AND NOT ` + inLedger("new", " AND l.day BETWEEN $10::date AND $11::date") + `
		ON CONFLICT (key) DO NOTHING RETURNING key, seq, body_day
	), stored AS (
		INSERT INTO {bodies} (day, seq, body)
		SELECT body_day, seq, body FROM fresh JOIN new USING (key) WHERE body_day IS NOT NULL
	) SELECT key FROM fresh`

// settledQuery finds those that were settled while insertQuery ran, which did not see
// that: it may have waited for the transaction that had inserted one, and that one may have
// been handled since. What comes after it in the transaction sees what was settled before the
// insert, and nothing can be settled after it. They are taken back by a statement of its own,
// as there are hardly ever any: what deletes by a list of keys may go through all of the
// table, as that was small when the plan was made.
var settledQuery = `SELECT key FROM unnest($1::text[], $2::timestamptz[]) AS new (key, created_at)
	WHERE ` + inLedger("new", " AND l.day BETWEEN $3::date AND $4::date")

// insert stores events, with a job for each new one, and returns the keys of these. All replicas
// insert in the order of the keys, so that none waits for another that waits for it. The
// transaction may have a short lock timeout, which ends with the insert: all who announce a job
// take turns at their commit.
func (i *Inbox) insert(ctx context.Context, tx pgx.Tx, rows []*newRow) (fresh map[string]bool, err error) {
	slices.SortFunc(rows, func(a, b *newRow) int { return cmp.Compare(a.key, b.key) })
	rows = slices.CompactFunc(slices.Clone(rows), func(a, b *newRow) bool { return a.key == b.key })
	values := columnsOf(rows)
	first, last := daysOf(rows)
	batch := &pgx.Batch{}
	batch.Queue(i.sql(insertQuery), append(values, first, last)...).Query(func(found pgx.Rows) (err error) {
		fresh, err = setOf(found)
		return err
	})
	var settled []string
	batch.Queue(i.sql(settledQuery), values[0], values[3], first, last).Query(func(found pgx.Rows) error {
		known, err := setOf(found)
		for key := range known {
			if fresh[key] {
				settled = append(settled, key)
			}
		}
		return err
	})
	batch.Queue("SET LOCAL lock_timeout TO DEFAULT")
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	if len(settled) > 0 {
		if _, err := tx.Exec(ctx, i.sql("DELETE FROM {inbox} WHERE key = ANY ($1)"), settled); err != nil {
			return nil, fmt.Errorf("riverinbox: %w", err)
		}
		for _, key := range settled {
			delete(fresh, key)
		}
	}
	var partitions []partition
	for _, row := range rows {
		if fresh[row.key] {
			partitions = append(partitions, row.partition())
		}
	}
	return fresh, i.insertJobs(ctx, tx, partitions)
}

// columnsOf turns rows into the columns that insertQuery takes.
func columnsOf(rows []*newRow) []any {
	n := len(rows)
	keys, types, clinics := make([]string, n), make([]string, n), make([]string, n)
	created, received, ordered := make([]*time.Time, n), make([]time.Time, n), make([]time.Time, n)
	subjects, objects, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	for at, r := range rows {
		keys[at], types[at], clinics[at] = r.key, text(string(r.delivery.Type)), text(r.delivery.ClinicID)
		if !r.delivery.CreatedAt.IsZero() {
			created[at] = &r.delivery.CreatedAt
		}
		received[at], ordered[at] = r.delivery.ReceivedAt, r.delivery.OrderTime()
		subjects[at], objects[at], bodies[at] = r.subject, r.object, r.body
	}
	return []any{keys, types, clinics, created, received, ordered, subjects, objects, bodies}
}

// insertJobs inserts a job for each partition, which makes a worker come. River has a faster
// way for thousands of jobs, which costs more round trips: it is slower here.
func (i *Inbox) insertJobs(ctx context.Context, tx pgx.Tx, partitions []partition) error {
	if len(partitions) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(partitions))
	for n, l := range partitions {
		jobs[n] = river.InsertManyParams{Args: l, InsertOpts: &i.jobs}
	}
	if _, err := i.client.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("riverinbox: inserting jobs: %w", err)
	}
	return nil
}
