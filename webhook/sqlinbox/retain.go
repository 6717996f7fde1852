package sqlinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// retain deletes old keys every hour.
func (i *Inbox) retain() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		err := i.purge()
		if errors.Is(err, ErrReplaced) {
			return
		}
		if err != nil && !i.life.Stopped() {
			i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, "webhook inbox cannot purge", slog.String("reason", err.Error()))
		}
		select {
		case <-ticker.C:
		case <-i.life.Stopping():
			return
		}
	}
}

// purge deletes in small transactions, so that accepts do not wait long.
func (i *Inbox) purge() error {
	const few = 500
	before := i.config.now().Add(-engine.Retention).UnixMicro()
	for _, statement := range []string{
		`DELETE FROM dispensary_inbox WHERE seq IN
			(SELECT seq FROM dispensary_inbox WHERE state = 6 AND due_at < ? LIMIT ?)`,
		`DELETE FROM dispensary_inbox_newest WHERE object IN
			(SELECT object FROM dispensary_inbox_newest WHERE noted_at < ? LIMIT ?)`,
	} {
		for deleted := int64(few); deleted == few; {
			if i.life.Stopped() {
				return nil
			}
			err := i.writer.doLazily(context.Background(), func(t *tx) (err error) {
				deleted, err = t.changed(statement, before, few)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	var s engine.Stats
	if err := i.readable(); err != nil {
		return s, err
	}
	var oldest *int64
	err := i.db.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM dispensary_inbox WHERE state IN (2, 3)),
		(SELECT count(*) FROM dispensary_inbox WHERE state = 4),
		(SELECT count(*) FROM dispensary_inbox WHERE state = 5),
		(SELECT min(received_at) FROM dispensary_inbox WHERE state IN (2, 3, 4))`,
	).Scan(&s.Waiting, &s.Running, &s.Dead, &oldest)
	if err != nil {
		return engine.Stats{}, fmt.Errorf("sqlinbox: %w", err)
	}
	if i.worker != nil { // a Reader has none
		s.Overdue = i.worker.Overdue()
	}
	if oldest != nil {
		s.Oldest = time.UnixMicro(*oldest).UTC()
	}
	return s, nil
}
