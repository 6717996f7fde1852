package riverinbox

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// A claim is a row of the claims, and nothing else: a worker that inserts the row of a
// partition has the partition's first event, until it deletes the row, which it does with
// the outcome, or until another one does, after the time of the row. The partition of an
// event without an ordering key is the event itself, and has its key.
//
// Attempts are counted in the row, and not at their end, which may not come. The event is
// changed by what became of the attempt.

// In these statements $1 is the key of a partition, and {partition} the column that its
// events have it in.
const (
	// claimFirst claims the first event of a partition, if that is free and the event is due.
	// It locks the event before it inserts the claim, so the event is as its last claim left
	// it. It skips an event that is locked.
	claimFirst = `WITH first AS MATERIALIZED (
			SELECT ` + columns + `, e.attempts + 1 AS attempt, coalesce(e.object, ''), e.state = 2,
				(SELECT at FROM {newest} n WHERE n.object = e.object)
			FROM {inbox} e WHERE NOT EXISTS (SELECT FROM {claims} WHERE subject = $1) AND key = ` + firstOf + `
			AND state < 3 AND due_at <= clock_timestamp() FOR UPDATE OF e SKIP LOCKED
		), claimed AS (
			INSERT INTO {claims} (subject, claim, until, event, attempt)
			SELECT $1, $2, clock_timestamp() + $3::interval, key, attempt FROM first
			ON CONFLICT (subject) DO NOTHING RETURNING subject
		) SELECT first.* FROM first, claimed`

	firstOf = `(SELECT key FROM {inbox} WHERE {partition} = $1 AND state < 3 ORDER BY order_at, seq LIMIT 1)`

	// isTaken finds the claim of a partition. It waits for a worker that is about to end it,
	// which may not have seen the event that this one has come for.
	isTaken = `SELECT FROM {claims} WHERE subject = $1 FOR KEY SHARE`

	// endAbandoned ends the claim of a partition whose time is over, and notes the attempt
	// that was lost with it. A claim that is locked is in a transaction that is about to store
	// its event as handled.
	endAbandoned = `WITH abandoned AS (
			SELECT subject, event, attempt FROM {claims} WHERE subject = $1 AND until < clock_timestamp() FOR UPDATE SKIP LOCKED
		), noted AS (
			UPDATE {inbox} e SET state = 2, attempts = a.attempt FROM abandoned a WHERE e.key = a.event AND e.state < 3
		) DELETE FROM {claims} c USING abandoned a WHERE c.subject = a.subject`

	// untilDue is in how many microseconds the first event is due.
	untilDue = `SELECT greatest(0, ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000000))::bigint FROM {inbox} WHERE key = ` + firstOf
)

// key returns the key of the partition, and the column that its events have it in.
func (p partition) key() (key, column string) {
	if p.Subject != "" {
		return p.Subject, "subject"
	}
	return p.Event, "key"
}

// sql is that of the inbox, for the partition.
func (r *run) sql(statement string) string {
	_, column := r.partition.key()
	return r.inbox.sql(strings.ReplaceAll(statement, "{partition}", column))
}

// claim takes the first event of the partition, if it is due; else it says when the
// job has to come again.
func (r *run) claim(ctx context.Context) (*claim, next, error) {
	for range 2 {
		if c, err := r.claimFirst(ctx); c != nil || err != nil {
			return c, next{}, err
		}
		if n, free, err := r.look(ctx); !free || err != nil {
			return nil, n, err
		}
	}
	return nil, next{wait: time.Second}, nil // another transaction has locked the event
}

func (r *run) claimFirst(ctx context.Context) (*claim, error) {
	i := r.inbox
	key, _ := r.partition.key()
	c := &claim{subject: key, token: i.newToken()}
	var s scanned
	var found bool
	var unreadable error // of this event: the claims that share the transaction are good
	// Not the job's context: a claim that is made after its end, and has no worker, would count
	// as an attempt.
	err := i.claiming.do(context.WithoutCancel(ctx), request{order: key, queue: func(batch *pgx.Batch) {
		c.since, found = time.Now(), false
		batch.Queue(r.sql(claimFirst), c.subject, c.token, i.config.Lease).Query(func(rows pgx.Rows) error {
			_, unreadable = pgx.ForEachRow(rows, s.into(), func() error {
				found = true
				return nil
			})
			return nil
		})
	}})
	if err = cmp.Or(err, unreadable); err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	if !found {
		return nil, nil
	}
	c.task = i.task(&s)
	return c, nil
}

// inTurn makes a statement of a worker alone. They take turns, so that most connections of
// the pool are left to accepts and handlers, and the database does not do so many things at a
// time that each of them waits for all.
func (i *Inbox) inTurn(ctx context.Context, statement func() error) error {
	select {
	case i.turns <- struct{}{}:
		defer func() { <-i.turns }()
		return statement()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look ends what was abandoned of the partition, and says whether it is free and has an
// event that is due, or when the job has to come again.
func (r *run) look(ctx context.Context) (n next, free bool, err error) {
	i, lease := r.inbox, r.inbox.config.Lease
	key, _ := r.partition.key()
	taken, micros := false, int64(-1)
	batch := &pgx.Batch{}
	batch.Queue(r.sql(endAbandoned), key)
	batch.Queue(r.sql(isTaken), key).Exec(func(tag pgconn.CommandTag) error {
		taken = tag.RowsAffected() > 0
		return nil
	})
	batch.Queue(r.sql(untilDue), key).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&micros}, func() error { return nil })
		return err
	})
	if err := i.inTurn(ctx, func() error { return i.pool.SendBatch(ctx, batch).Close() }); err != nil {
		return next{}, false, fmt.Errorf("riverinbox: %w", err)
	}
	switch {
	case micros < 0:
		return next{never: true}, false, nil
	case taken:
		// Its worker looks at the partition again after the event that it is at, and finds
		// the event of this job. Should it die, the job comes back.
		return next{again: true, wait: lease + rand.N(lease/2)}, false, nil
	}
	return next{wait: time.Duration(micros) * time.Microsecond}, micros == 0, nil
}

// scanned is a claimed event, whose body is still sealed.
type scanned struct {
	storedRow
	attempt   int
	object    string
	abandoned bool // its last attempt was
	newest    *time.Time
}

func (s *scanned) into() []any {
	return append(s.storedRow.into(), &s.attempt, &s.object, &s.abandoned, &s.newest)
}

func (i *Inbox) task(s *scanned) engine.Task {
	t := engine.Task{Attempt: s.attempt, Object: webhook.OrderingKey(s.object)}
	t.Delivery, t.Err = i.delivery(&s.storedRow)
	if s.newest != nil {
		t.Newest = s.newest.UTC()
	}
	if s.abandoned && s.attempt > i.worker.Work().Retry.MaxAttempts {
		t.Attempt, t.Err = s.attempt-1, webhook.ErrAbandoned
	}
	return t
}

// run is the work of one job.
type run struct {
	inbox     *Inbox
	partition partition
	begun     time.Time

	settled       int
	failing, dead bool
	finished      bool // nothing is left in the partition
	reasons       []string
}

func (i *Inbox) newRun(p partition) *run {
	return &run{inbox: i, partition: p, begun: time.Now()}
}

// next says when a job has to come again: never, if nothing is left to do.
type next struct {
	never bool
	wait  time.Duration
	again bool // it was interrupted, and has to come whatever it has done
}
