package sqlinbox

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// maxTime is later than everything.
const maxTime = math.MaxInt64

// Accept implements [webhook.Inbox]: when it returns, the event has been synced
// to the disk. It fails with [webhook.ErrInboxClosed], [ErrFull], the error of ctx,
// and errors of the database, which hold nothing of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	if i.reserve.spent.Load() {
		return webhook.Receipt{}, ErrFull
	}
	// Everything that can be done by many at a time is done before the one
	// writer is asked.
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	if err := i.writer.Do(ctx, &write{do: row.insert, accept: true, bytes: len(row.body)}); err != nil {
		return webhook.Receipt{}, err
	}
	return webhook.Receipt{Duplicate: row.duplicate}, nil
}

// newRow is an event on its way into the table.
type newRow struct {
	key                 string
	delivery            webhook.Delivery
	orderingKey         webhook.OrderingKey
	object              webhook.OrderingKey
	body                []byte
	createdAt           any // nil where the platform did not say
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
		now:        i.now(),
	}
	if !d.CreatedAt.IsZero() {
		r.createdAt = d.CreatedAt.UnixMicro()
	}
	r.orderingKey, r.object = i.worker.OrderingKeys(d)
	r.body, err = engine.SealBody(i.config.Seal, d.Key, d.Body)
	r.delivery.Body = nil
	return r, err
}

func (r *newRow) insert(t *tx) error {
	state, overtakes, err := r.state(t)
	if err != nil {
		return err
	}
	changed, err := t.changed(`INSERT INTO dispensary_inbox
		(key, type, clinic_id, created_at, received_at, order_at, subject, object, state, due_at)
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

// place finds out where an event has its place, if it is new: ready where it
// need not wait, else in line, and if it is older than the one that is ready,
// before that.
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
		return stateInLine, r.orderAt < orderAt, nil
	}
	return stateInLine, false, nil
}

// leaderQuery finds the one event of a subject that is ready or being handled.
// It goes through the line from its beginning, where that event stands: only
// what came late stands before it.
const headQuery = `SELECT seq, state, order_at FROM dispensary_inbox
	WHERE subject = ? AND state < 5 AND state > 2 ORDER BY order_at, seq LIMIT 1`

// lead makes the oldest event of a subject the one that is ready, unless one of
// them is being handled.
func promoteHead(t *tx, orderingKey string) error {
	var head, orderAt, oldest int64
	var state int
	hasHead, err := t.first(headQuery, []any{orderingKey}, &head, &state, &orderAt)
	if err != nil || hasHead && state == stateRunning {
		return err
	}
	t.ready = true
	found, err := t.first(`SELECT seq FROM dispensary_inbox
		WHERE subject = ? AND state < 5 ORDER BY order_at, seq LIMIT 1`, []any{orderingKey}, &oldest)
	if err != nil || !found || hasHead && head == oldest {
		return err
	}
	if hasHead {
		if err := t.exec("UPDATE dispensary_inbox SET state = 2 WHERE seq = ?", head); err != nil {
			return err
		}
	}
	return t.exec("UPDATE dispensary_inbox SET state = 3 WHERE seq = ?", oldest)
}

// committed tells those who may have something to do after a transaction.
func (i *Inbox) committed(t *tx) {
	if t.ready {
		notify(i.wake)
	}
	if t.freed {
		notify(i.freed)
	}
}

// callNext makes the oldest event of a subject the one that is ready, where none
// is that, or being handled.
func promoteNext(t *tx, orderingKey string) error {
	changed, err := t.changed(`UPDATE dispensary_inbox SET state = 3 WHERE seq = (SELECT seq FROM dispensary_inbox
		WHERE subject = ? AND state < 5 ORDER BY order_at, seq LIMIT 1)`, orderingKey)
	t.ready = t.ready || changed > 0
	return err
}

// tell wakes who waits for a channel of size 1.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been told
	}
}

func (i *Inbox) now() int64 { return i.config.now().UnixMicro() }

// columns are what a delivery is read from.
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

// delivery opens the body. A delivery whose body does not open is returned
// without it, with the error.
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
	d.Body, err = engine.OpenBody(i.config.Seal, d.Key, s.body)
	return d, err
}
