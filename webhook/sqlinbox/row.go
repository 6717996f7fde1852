package sqlinbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// maxTime is later than any time.
const maxTime = math.MaxInt64

// columns are the columns of a delivery.
const columns = `key, type, clinic_id, created_at, received_at,
	(SELECT body FROM dispensary_inbox_bodies b WHERE b.seq = dispensary_inbox.seq)`

type storedRow struct {
	key, kind, clinicID string
	createdAt           sql.NullInt64
	receivedAt          int64
	body                []byte
}

func (s *storedRow) into() []any {
	return []any{&s.key, &s.kind, &s.clinicID, &s.createdAt, &s.receivedAt, &s.body}
}

// delivery decrypts the body. If that fails, it returns the delivery without a body.
func (i *Inbox) delivery(s *storedRow) (webhook.Delivery, error) {
	d := webhook.Delivery{
		Type:       events.Type(s.kind),
		ClinicID:   s.clinicID,
		ReceivedAt: time.UnixMicro(s.receivedAt).UTC(),
	}
	if s.createdAt.Valid {
		d.CreatedAt = time.UnixMicro(s.createdAt.Int64).UTC()
	}
	if err := d.Key.UnmarshalText([]byte(s.key)); err != nil {
		return d, err
	}
	var err error
	d.Body, err = inboxkit.OpenBody(i.config.Seal, d.Key, s.body)
	return d, err
}

// claim is a claimed event. Its number is a fencing token: an outcome with an old number has no
// effect.
type claim struct {
	storedRow
	seq, number         int64
	attempts            int
	orderingKey, object string
	reason              string
	failures            failures
	abandoned           bool // reap has stored the failure
	newest              sql.NullInt64
}

// id identifies a claim.
func (c *claim) id() [2]int64 { return [2]int64{c.seq, c.number} }

// failures is the column of this name. It is NULL if there are none.
type failures []engine.Failure

// Scan implements [sql.Scanner].
func (f *failures) Scan(column any) error {
	var text sql.NullString
	if err := text.Scan(column); err != nil || !text.Valid {
		*f = nil
		return err
	}
	return json.Unmarshal([]byte(text.String), f)
}

// Value implements [driver.Valuer].
func (f failures) Value() (driver.Value, error) {
	if f == nil {
		return nil, nil
	}
	text, err := json.Marshal([]engine.Failure(f))
	return string(text), err
}

// requestIDs returns the column request_ids.
func (f failures) requestIDs() sql.NullString {
	ids := ""
	for _, one := range f {
		if one.RequestID != "" {
			ids += one.RequestID + "\n"
		}
	}
	return sql.NullString{String: ids, Valid: ids != ""}
}

// keep returns the failures to store after a failed attempt.
func (c *claim) keep(a webhook.Attempt, at int64) failures {
	if c.abandoned {
		return c.failures
	}
	return inboxkit.AppendFailure(c.failures, a, time.UnixMicro(at))
}

// collect reads the rows of a query.
func collect[T any](ctx context.Context, db *sql.DB, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	err = eachRow(rows, func(rows *sql.Rows) error {
		one, err := scan(rows)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// eachRow calls scan for each row, and closes rows.
func eachRow(rows *sql.Rows, scan func(*sql.Rows) error) (err error) {
	defer func() {
		if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
			err = fmt.Errorf("sqlinbox: %w", err)
		}
	}()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return nil
}
