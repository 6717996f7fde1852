package riverinbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Accept implements [webhook.Inbox]: when it returns, event and job have been
// committed. Deliveries that wait at the same time share a transaction. It fails
// with [webhook.ErrInboxClosed], with that of ctx, with [webhook.ErrUnstorable] for
// a key of more than 2,600 bytes, and with errors of the database, which hold
// nothing of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	// Everything that can be done by many at a time is done before the
	// transaction that they share.
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	duplicate, err := i.writer.store(ctx, row)
	return webhook.Receipt{Duplicate: duplicate}, err
}

// AcceptTx is Accept in a transaction of the program's own: the event is there,
// and is handled, once the program has committed it, together with whatever else
// it wrote. Acknowledge it after that and not before.
//
// Of two transactions that accept one event, the second waits for the end of the
// first. After an error the transaction can only be rolled back. It has to be READ
// COMMITTED, as PostgreSQL's are if nothing else is asked for: another one is refused with
// an [*api.ArgumentError].
func (i *Inbox) AcceptTx(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (webhook.Receipt, error) {
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	row, err := i.newRow(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	fresh, err := i.insert(ctx, tx, []*newRow{row}, wantReadCommitted)
	if err != nil {
		return webhook.Receipt{}, err
	}
	return webhook.Receipt{Duplicate: len(fresh) == 0}, nil
}

// wantReadCommitted fails in a transaction that sees nothing of what was settled since it
// began.
func wantReadCommitted(batch *pgx.Batch) {
	batch.Queue("SHOW transaction_isolation").QueryRow(func(row pgx.Row) error {
		var isolation string
		if err := row.Scan(&isolation); err != nil || isolation == "read committed" {
			return err
		}
		return &api.ArgumentError{Field: "tx", Reason: "is not READ COMMITTED: an event that was handled since it began would be taken for new"}
	})
}

func (i *Inbox) newRow(d webhook.Delivery) (*newRow, error) {
	key := d.Key.String()
	if len(key) > maxIndexed {
		return nil, fmt.Errorf("riverinbox: %w: %w", webhook.ErrUnstorable, &api.ArgumentError{
			Field: "webhook.Delivery.Key", Reason: fmt.Sprintf("has %d bytes as text, and PostgreSQL can index %d", len(key), maxIndexed),
		})
	}
	r := &newRow{key: key, delivery: d}
	subject, object := i.worker.OrderingKeys(d)
	r.subject, r.object = indexed(string(subject)), indexed(string(object))
	var err error
	r.body, err = engine.SealBody(i.config.Seal, d.Key, d.Body)
	r.delivery.Body = nil
	return r, err
}
