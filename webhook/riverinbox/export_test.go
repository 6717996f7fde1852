package riverinbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
)

// Quick shortens the interval of sweeps to 50 ms.
func (c Config) Quick() Config {
	c.sweepEvery = 50 * time.Millisecond
	return c
}

// Name is the name of River's client.
func (i *Inbox) Name() string { return i.heart.name }

// River is River's client of the inbox, like the client of River's UI.
func (i *Inbox) River() *river.Client[pgx.Tx] { return i.client }

// Sweep runs one sweep.
func (i *Inbox) Sweep(ctx context.Context) error { return i.heart.sweep(ctx) }

// Beat stores a heartbeat.
func (i *Inbox) Beat(ctx context.Context) error { return i.heart.beat(ctx) }

// Purge deletes old keys.
func (i *Inbox) Purge(ctx context.Context) error { return i.ledger.purge(ctx) }

// AcceptIn accepts in a transaction that is still open, like another replica.
func (i *Inbox) AcceptIn(ctx context.Context, tx pgx.Tx, d webhook.Delivery) (webhook.Receipt, error) {
	a, err := i.accepts.encode(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	err = i.accepts.insertWith(ctx, tx, []*accept{a})
	return webhook.Receipt{Duplicate: !a.fresh}, err
}

// SchemaName returns the schema of the configuration.
func (c Config) SchemaName() string {
	name, _ := schemaOf(new(pgxpool.Pool), c.Schema)
	return name
}

// Still disables sweeps during a test.
func (c Config) Still() Config {
	c.sweepEvery = time.Hour
	return c
}

// Next changes the configuration to that of a release with a newer schema. oldest is the oldest
// version whose release can use the schema.
func (c Config) Next(oldest int) Config {
	c.script = strings.Replace(script, "VALUES (1, 1, 1)", fmt.Sprintf(`VALUES (1, 2, %d)`, oldest), 1)
	c.script = strings.Replace(c.script, "-- inbox_next", "ALTER TABLE {s}.inbox_order ADD COLUMN IF NOT EXISTS added integer NOT NULL DEFAULT 2;\n-- inbox_next", 1)
	c.script = strings.ReplaceAll(c.script, "\nBEGIN\n", "\nBEGIN -- of the next release\n")
	return c
}
