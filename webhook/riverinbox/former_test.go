package riverinbox_test

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/webhook"
)

// former is a replica of the release before, which knows neither ledger nor bodies. It
// says to the database what that release says, word by word.
type former struct{ pool *pgxpool.Pool }

const formerInsert = `INSERT INTO dispensary_inbox (key, type, clinic_id, created_at, received_at, order_at, subject, object, state, due_at, body)
	SELECT key, type, clinic_id, created_at, received_at, order_at, nullif(subject, ''), nullif(object, ''), 1, now(), body
	FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::text[], $8::text[], $9::bytea[])
	AS new (key, type, clinic_id, created_at, received_at, order_at, subject, object, body)
	WHERE (SELECT count(*) FROM dispensary_inbox e WHERE e.key = new.key) = 0
	ON CONFLICT (key) DO NOTHING RETURNING key`

const (
	formerTake = `INSERT INTO dispensary_inbox_lines AS l (subject, claim, until) VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (subject) DO UPDATE SET claim = excluded.claim, until = excluded.until
		WHERE l.claim = excluded.claim OR l.until < clock_timestamp()`

	formerClaim = `WITH first AS (
			SELECT key, state FROM dispensary_inbox WHERE subject = $1 AND state < 3 ORDER BY order_at, seq LIMIT 1
		), free AS (
			SELECT key FROM dispensary_inbox WHERE key = (SELECT key FROM first) AND state < 3
			AND EXISTS (SELECT FROM dispensary_inbox_lines WHERE subject = $1 AND claim = $2) FOR UPDATE SKIP LOCKED
		) UPDATE dispensary_inbox e SET state = 2, due_at = clock_timestamp() + $3::interval, attempts = e.attempts + 1, claim = $2
		FROM first, free WHERE e.key = first.key AND e.key = free.key AND e.state < 3
		AND (first.state = 2 OR e.due_at <= clock_timestamp())
		RETURNING e.key, e.body, e.attempts, first.state = 2`

	formerClaimOne = `WITH first AS (SELECT key, state FROM dispensary_inbox WHERE key = $1 AND state < 3 FOR UPDATE SKIP LOCKED)
		UPDATE dispensary_inbox e SET state = 2, due_at = clock_timestamp() + $3::interval, attempts = e.attempts + 1, claim = $2
		FROM first WHERE e.key = first.key AND e.state < 3 AND e.due_at <= clock_timestamp()
		RETURNING e.key, e.body, e.attempts, first.state = 2`

	formerRecord = `WITH noted AS (
		UPDATE dispensary_inbox SET state = $3::smallint, due_at = clock_timestamp() + $4::interval, attempts = $5,
			reason = nullif($6, ''), error = $7, body = CASE WHEN $3::smallint = 3 THEN NULL ELSE body END
		WHERE key = $1 AND claim = $2 AND state = 2 RETURNING object, created_at
	), newest AS (
		INSERT INTO dispensary_inbox_newest AS n (object, at, noted_at)
		SELECT object, created_at, now() FROM noted WHERE $8 AND object IS NOT NULL AND created_at IS NOT NULL
		ON CONFLICT (object) DO UPDATE SET at = greatest(n.at, excluded.at), noted_at = excluded.noted_at
	) SELECT (SELECT count(*) FROM noted)
		+ (SELECT count(*) FROM dispensary_inbox WHERE key = $1 AND claim = $2 AND state = $3::smallint AND state <> 2)`

	formerLeave = `DELETE FROM dispensary_inbox_lines WHERE subject = $1 AND claim = $2
		AND NOT EXISTS (SELECT FROM dispensary_inbox WHERE subject = $1 AND state = 2 AND claim = $2)`

	formerRelease = `DELETE FROM dispensary_inbox_lines WHERE subject = $1 AND claim = $2
		AND NOT EXISTS (SELECT FROM dispensary_inbox WHERE subject = $1 AND state < 3)`
)

// insert accepts an event whose body is sealed already, in the line of its clinic.
func (f former) insert(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (fresh bool, err error) {
	err = tx.QueryRow(ctx, formerInsert, []string{d.Key.String()}, []string{string(d.Type)}, []string{d.ClinicID}, []time.Time{d.CreatedAt},
		[]time.Time{d.ReceivedAt}, []time.Time{d.OrderTime()}, []string{d.ClinicID}, []string{""}, [][]byte{d.Body}).Scan(new(string))
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// leave gives up a line.
func (f former) leave(ctx context.Context, subject, token string) error {
	_, err := f.pool.Exec(ctx, formerLeave, subject, token)
	return err
}

// formerClaimed is an event that a former replica has claimed.
type formerClaimed struct {
	key, subject, token string
	body                []byte
	attempts            int
	abandoned           bool // by the worker before
}

// claim claims the first event of a line, or where that is empty, the event with a key. It
// returns nil if it cannot.
func (f former) claim(ctx context.Context, subject, key, token string) (*formerClaimed, error) {
	const lease = time.Minute
	c := &formerClaimed{subject: subject, token: token}
	scan := func(row pgx.Row) error {
		err := row.Scan(&c.key, &c.body, &c.attempts, &c.abandoned)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}
	batch := &pgx.Batch{}
	if subject == "" {
		batch.Queue(formerClaimOne, key, token, lease).QueryRow(scan)
	} else {
		batch.Queue(formerTake, subject, token, lease)
		batch.Queue(formerClaim, subject, token, lease).QueryRow(scan)
		batch.Queue(formerLeave, subject, token)
	}
	if err := f.pool.SendBatch(ctx, batch).Close(); err != nil || c.key == "" {
		return nil, err
	}
	return c, nil
}

// record stores the outcome of an attempt, and reports whether the event was claimed still.
func (f former) record(ctx context.Context, c *formerClaimed, failed bool) (recorded bool, err error) {
	state, reason, wait := 3, "", time.Duration(0)
	if failed {
		state, reason, wait = 1, "failed", time.Microsecond
	}
	n := 0
	batch := &pgx.Batch{}
	batch.Queue(formerRecord, c.key, c.token, state, wait, c.attempts, reason, nil, true).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if c.subject != "" {
		batch.Queue("SELECT FROM dispensary_inbox_lines WHERE subject = $1 AND claim = $2 FOR UPDATE", c.subject, c.token)
		batch.Queue(formerRelease, c.subject, c.token)
	}
	err = f.pool.SendBatch(ctx, batch).Close()
	return n > 0, err
}

// work handles the event that it claims, if there is one, and keeps a line while there are
// others.
func (f former) work(ctx context.Context, subject, key, token string, handle func(key string, body []byte) error) (found bool, err error) {
	c, err := f.claim(ctx, subject, key, token)
	if c == nil {
		return false, err
	}
	recorded, err := f.record(ctx, c, handle(c.key, c.body) != nil)
	if err == nil && !recorded {
		err = errors.New("the claim was lost")
	}
	return true, err
}
