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
		RETURNING e.key, e.body`

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

// work handles the first event of a line, if it is free, and keeps the line while there
// are others.
func (f former) work(ctx context.Context, subject, token string, handle func(key string, body []byte) error) (found bool, err error) {
	const lease = time.Minute
	var key string
	var body []byte
	batch := &pgx.Batch{}
	batch.Queue(formerTake, subject, token, lease)
	batch.Queue(formerClaim, subject, token, lease).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&key, &body)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	batch.Queue(formerLeave, subject, token)
	if err := f.pool.SendBatch(ctx, batch).Close(); err != nil || key == "" {
		return false, err
	}
	state, reason, wait := 3, "", time.Duration(0)
	if err := handle(key, body); err != nil {
		state, reason, wait = 1, "failed", time.Microsecond
	}
	recorded := 0
	batch = &pgx.Batch{}
	batch.Queue(formerRecord, key, token, state, wait, 1, reason, nil, true).QueryRow(func(row pgx.Row) error { return row.Scan(&recorded) })
	batch.Queue("SELECT FROM dispensary_inbox_lines WHERE subject = $1 AND claim = $2 FOR UPDATE", subject, token)
	batch.Queue(formerRelease, subject, token)
	if err := f.pool.SendBatch(ctx, batch).Close(); err != nil {
		return true, err
	}
	if recorded == 0 {
		return true, errors.New("the claim was lost")
	}
	return true, nil
}
