package riverinbox

import (
	"context"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	if i.life.Stopped() {
		return s, webhook.ErrInboxClosed
	}
	var oldest *time.Time
	err := i.pool.QueryRow(ctx, i.sql(`SELECT count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2),
		count(*) FILTER (WHERE state = 4), min(received_at) FILTER (WHERE state < 3) FROM {inbox} WHERE state <> 3`),
	).Scan(&s.Waiting, &s.Running, &s.Dead, &oldest)
	if err != nil {
		return engine.Stats{}, fmt.Errorf("riverinbox: %w", err)
	}
	if oldest != nil {
		s.Oldest = oldest.UTC()
	}
	return s, nil
}
