package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// claiming are the statements by which a run takes the first event of its partition,
// in one round trip and one transaction, though each sees what was committed
// before it: what comes after takePartition sees all that its last holder did.
// Attempts are counted now and not at their end, which may not come.
//
// The partition of an event without an ordering key is the event itself.
var (
	// takePartition makes the token the holder of the partition, unless another one is.
	takePartition = `INSERT INTO {lines} AS l (subject, claim, until) VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (subject) DO UPDATE SET claim = excluded.claim, until = excluded.until
		WHERE l.claim = excluded.claim OR l.until < clock_timestamp()`

	// claimFirst claims the oldest event of the partition, if that is held and the
	// event is due. One that is running was left behind by a holder that died, unless
	// it is locked: then a transaction is about to store it as handled, and a worker
	// that waited for that would be one less.
	claimFirst = `WITH first AS (
			SELECT key, state FROM {inbox} WHERE subject = $1 AND state < 3 ORDER BY order_at, seq LIMIT 1
		), free AS (
			SELECT key FROM {inbox} WHERE key = (SELECT key FROM first) AND state < 3
			AND EXISTS (SELECT FROM {lines} WHERE subject = $1 AND claim = $2) FOR UPDATE SKIP LOCKED
		) UPDATE {inbox} e SET state = 2, due_at = clock_timestamp() + $3::interval, attempts = e.attempts + 1, claim = $2
		FROM first, free WHERE e.key = first.key AND e.key = free.key AND e.state < 3
		AND (first.state = 2 OR e.due_at <= clock_timestamp())
		RETURNING ` + claimed

	// leavePartition gives up the partition if nothing was claimed.
	leavePartition = `DELETE FROM {lines} WHERE subject = $1 AND claim = $2
		AND NOT EXISTS (SELECT FROM {inbox} WHERE subject = $1 AND state = 2 AND claim = $2)`

	// lookAtPartition says whether another worker has the partition, or its first event,
	// and else when that is due.
	lookAtPartition = `SELECT state = 2 OR EXISTS (SELECT FROM {lines} WHERE subject = $1 AND claim <> $2), ` + untilDue + `
		FROM {inbox} WHERE subject = $1 AND state < 3 ORDER BY order_at, seq LIMIT 1`

	// claimOne claims an event that has no ordering key.
	claimOne = `WITH first AS (SELECT key, state FROM {inbox} WHERE key = $1 AND state < 3 FOR UPDATE SKIP LOCKED)
		UPDATE {inbox} e SET state = 2, due_at = clock_timestamp() + $3::interval, attempts = e.attempts + 1, claim = $2
		FROM first WHERE e.key = first.key AND e.state < 3 AND e.due_at <= clock_timestamp() RETURNING ` + claimed

	lookAtOne = `SELECT state = 2, ` + untilDue + ` FROM {inbox} WHERE key = $1 AND state < 3`

	claimed = columns + `, e.attempts, coalesce(e.object, ''), first.state = 2,
		(SELECT at FROM {newest} n WHERE n.object = e.object)`

	untilDue = `greatest(0, ceil(extract(epoch FROM due_at - clock_timestamp()) * 1000000))::bigint`
)

// claim takes the first event of the partition, if it is due; else it says when the
// job has to come again.
func (r *run) claim(ctx context.Context) (*claim, next, error) {
	i, id := r.inbox, r.partition.Event
	lease := i.config.Lease
	first, look := claimOne, lookAtOne
	batch := &pgx.Batch{}
	if r.partition.Subject != "" {
		id, first, look = r.partition.Subject, claimFirst, lookAtPartition
		batch.Queue(i.sql(takePartition), id, r.token, lease)
	}
	var c *claim
	batch.Queue(i.sql(first), id, r.token, lease).QueryRow(func(row pgx.Row) (err error) {
		c, err = r.scanClaim(row)
		return err
	})
	taken, micros := false, int64(-1)
	if r.partition.Subject != "" {
		batch.Queue(i.sql(leavePartition), id, r.token)
		batch.Queue(i.sql(look), id, r.token).QueryRow(scanLook(&taken, &micros))
	} else {
		batch.Queue(i.sql(look), id).QueryRow(scanLook(&taken, &micros))
	}
	since := time.Now()
	if err := i.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, next{}, fmt.Errorf("riverinbox: %w", err)
	}
	if c != nil {
		c.since = since
		return c, next{}, nil
	}
	switch {
	case micros < 0:
		return nil, next{never: true}, nil
	case taken:
		// The holder of the partition looks at it again before giving it up, and finds
		// the event of this job. Should it die, the job comes back.
		return nil, next{again: true, wait: lease + rand.N(lease/2)}, nil
	}
	return nil, next{wait: time.Duration(micros) * time.Microsecond}, nil
}

// scanned is a claimed row, whose body is still sealed.
type scanned struct {
	storedRow
	attempts  int
	object    string
	abandoned bool
	newest    *time.Time
}

func (r *run) scanClaim(row pgx.Row) (*claim, error) {
	var s scanned
	err := row.Scan(append(s.into(), &s.attempts, &s.object, &s.abandoned, &s.newest)...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return r.inbox.newClaim(&s, r.token), nil
}

func (i *Inbox) newClaim(s *scanned, token string) *claim {
	c := &claim{key: s.key, token: token}
	c.task = engine.Task{Attempt: s.attempts, Object: webhook.OrderingKey(s.object)}
	c.task.Delivery, c.task.Err = i.delivery(&s.storedRow)
	if s.newest != nil {
		c.task.Newest = s.newest.UTC()
	}
	if s.abandoned && s.attempts > i.worker.Work().Retry.MaxAttempts {
		c.task.Attempt, c.task.Err = s.attempts-1, webhook.ErrAbandoned
	}
	return c
}

func scanLook(taken *bool, micros *int64) func(pgx.Row) error {
	return func(row pgx.Row) error {
		err := row.Scan(taken, micros)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}
}

// release gives up the partition. If that fails, the lease ends by itself.
func (r *run) release() {
	if r.partition.Subject == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.inbox.config.Lease)
	defer cancel()
	_, _ = r.inbox.pool.Exec(ctx, r.inbox.sql(leavePartition), r.partition.Subject, r.token)
}

// run is the work of one job.
type run struct {
	inbox     *Inbox
	partition partition
	token     string // of its claims
	begun     time.Time

	settled       int
	failing, dead bool
	finished      bool // nothing is left in the partition, which is given up
	reasons       []string
}

func (i *Inbox) newRun(l partition) *run {
	return &run{inbox: i, partition: l, token: i.newToken(), begun: time.Now()}
}

// next says when a job has to come again: never, if nothing is left to do.
type next struct {
	never bool
	wait  time.Duration
	again bool // it was interrupted, and has to come whatever it has done
}
