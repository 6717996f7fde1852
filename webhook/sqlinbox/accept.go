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
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Accept implements [webhook.Inbox]. It returns once the event is synced to the disk. Errors
// are [webhook.ErrInboxClosed], [api.ErrReplaced], the error of ctx, and errors of the
// database, such as a full disk, which contain no data of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	// All concurrent work is done before the single writer.
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	if err := i.writer.Do(ctx, &write{do: row.insert, bytes: len(row.body)}); err != nil {
		return webhook.Receipt{}, err
	}
	return webhook.Receipt{Duplicate: row.duplicate}, nil
}

// newRow is an event to insert into the table.
type newRow struct {
	key                 string
	delivery            webhook.Delivery
	orderingKey         webhook.OrderingKey
	object              webhook.OrderingKey
	body                []byte
	createdAt           any // nil if unknown
	receivedAt, orderAt int64
	now                 int64

	duplicate bool
}

func (i *Inbox) newRow(d webhook.Delivery) (*newRow, error) {
	key, err := d.Key.MarshalText()
	if err != nil {
		return nil, err
	}
	r := &newRow{
		key:        string(key),
		delivery:   d,
		receivedAt: d.ReceivedAt.UnixMicro(),
		orderAt:    d.OrderTime().UnixMicro(),
		now:        i.config.micros(),
	}
	if !d.CreatedAt.IsZero() {
		r.createdAt = d.CreatedAt.UnixMicro()
	}
	r.orderingKey, r.object = i.worker.OrderingKeys(d)
	r.body, err = inboxkit.SealBody(i.config.Seal, d.Key, d.Body)
	r.delivery.Body = nil
	return r, err
}

// CheckWrite implements [engine.Engine]. It inserts and deletes a body of 16 KiB in the
// transaction of the next accepts, so it fails as they do.
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	return i.writer.Do(ctx, &write{do: writeAndDelete, bytes: checkBytes})
}

// checkBytes fills several pages, so that SQLite must find space.
const checkBytes = 16 << 10

// writeAndDelete uses the largest number, because appending to a table is cheap.
func writeAndDelete(t *tx) error {
	if err := t.exec("INSERT INTO dispensary_inbox_bodies (seq, body) VALUES (?, zeroblob(?))", int64(math.MaxInt64), checkBytes); err != nil {
		return err
	}
	return t.exec("DELETE FROM dispensary_inbox_bodies WHERE seq = ?", int64(math.MaxInt64))
}

func (r *newRow) insert(t *tx) error {
	state, overtakes, err := r.state(t)
	if err != nil {
		return err
	}
	changed, err := t.changed(`INSERT INTO dispensary_inbox
		(key, type, clinic_id, created_at, received_at, order_at, ordering_key, object, state, due_at)
		VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), nullif(?, ''), ?, ?) ON CONFLICT (key) DO NOTHING`,
		r.key, string(r.delivery.Type), r.delivery.ClinicID, r.createdAt, r.receivedAt, r.orderAt,
		string(r.orderingKey), string(r.object), state, r.now)
	r.duplicate = err == nil && changed == 0
	if err != nil || r.duplicate {
		return err
	}
	err = t.exec("INSERT INTO dispensary_inbox_bodies (seq, body) VALUES (last_insert_rowid(), ?)", r.body)
	switch {
	case err != nil:
		return err
	case overtakes:
		return promoteHead(t, string(r.orderingKey))
	}
	t.ready = t.ready || state == stateReady
	return nil
}

// state returns the state of a new event. overtakes reports whether the event is older than
// the ready event of its ordering key.
func (r *newRow) state(t *tx) (state int, overtakes bool, err error) {
	if r.orderingKey == "" {
		return stateReady, false, nil
	}
	var head, orderAt int64
	found, err := t.first(headQuery, []any{string(r.orderingKey)}, &head, &state, &orderAt)
	switch {
	case err != nil || !found:
		return stateReady, false, err
	case state == stateReady:
		return stateBlocked, r.orderAt < orderAt, nil
	}
	return stateBlocked, false, nil
}

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
func (s *storedRow) delivery(aead seal.AEAD) (webhook.Delivery, error) {
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
	d.Body, err = inboxkit.OpenBody(aead, d.Key, s.body)
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
