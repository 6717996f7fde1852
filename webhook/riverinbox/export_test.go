package riverinbox

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
)

// Quick has an inbox look often for what stands still.
func (c Config) Quick() Config {
	c.sweepEvery = 50 * time.Millisecond
	return c
}

// Name is how River's client is called.
func (i *Inbox) Name() string { return i.name }

// River is the client of the inbox, as River's UI has one.
func (i *Inbox) River() *river.Client[pgx.Tx] { return i.client }

// Sweep looks once for what stands still.
func (i *Inbox) Sweep(ctx context.Context) error { return i.sweep(ctx) }

// Beat gives a sign of life.
func (i *Inbox) Beat(ctx context.Context) error { return i.beat(ctx) }

// KeepDays makes days of the ledger and drops old ones, also right after another process.
func (i *Inbox) KeepDays(ctx context.Context) error {
	return errors.Join(i.makeDays(ctx), i.dropDays(ctx))
}

// AcceptIn accepts in a transaction that is still open, as another replica does.
func (i *Inbox) AcceptIn(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (webhook.Receipt, error) {
	a, err := i.newAccept(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	err = i.insert(ctx, tx, []*accept{a})
	return webhook.Receipt{Duplicate: !a.fresh}, err
}

// Still has an inbox never look for what stands still.
func (c Config) Still() Config {
	c.sweepEvery = time.Hour
	return c
}
