package sqlinbox

import (
	"context"
	"math"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
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
		now:        i.now(),
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
