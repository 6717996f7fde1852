package riverinbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// WithMargin sets how much longer than its time-out a handler may take.
func (c Config) WithMargin(d time.Duration) Config {
	c.margin = d
	return c
}

// Purge deletes what is due for it.
func (i *Inbox) Purge(ctx context.Context) error { return i.purge(ctx) }

// RecordOutcome stores an outcome for the holder of a token.
func (i *Inbox) RecordOutcome(ctx context.Context, token string, a webhook.Attempt) error {
	return i.recordOutcome(ctx, i.pool, &claim{key: a.Key.String(), token: token}, a, func(*pgx.Batch) {})
}

// RepeatOutcome stores an outcome again whose first answer did not come.
func (i *Inbox) RepeatOutcome(ctx context.Context, token string, a webhook.Attempt) error {
	c := &claim{key: a.Key.String(), token: token, task: engine.Task{Delivery: a.Delivery}, unsure: true}
	return i.recordOutcome(ctx, i.pool, c, a, func(*pgx.Batch) {})
}

// MigrateFirst makes the tables of the first version.
func MigrateFirst(ctx context.Context, pool *pgxpool.Pool, tables Tables) error {
	_, err := pool.Exec(ctx, tables.names().Replace(schemaVersions+";"+firstTables+"; INSERT INTO {schema} (version) VALUES (1)"))
	return err
}

// KeepPartitions makes partitions, moves what is settled and drops what is over.
func (i *Inbox) KeepPartitions(ctx context.Context) error { return i.keepPartitions(ctx) }
