package riverinbox

import (
	"context"
	"fmt"

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
