package riverinbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
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
