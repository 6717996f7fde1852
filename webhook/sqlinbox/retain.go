package sqlinbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
)

// retain deletes old keys every hour.
func (i *Inbox) retain() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		err := i.purge()
		if errors.Is(err, api.ErrReplaced) {
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

// purge deletes in small transactions, so that accepts do not wait long. It measures the age of a
// key from the newest events if the clock is later: a clock that was ahead for a minute would
// otherwise delete all keys, and events sent again would be handled again.
func (i *Inbox) purge() error {
	const few = 500
	before, err := valueOf(context.Background(), i.writer.doLazily, func(t *tx) (newest int64, err error) {
		_, err = t.first(`SELECT coalesce(max(order_at), 0) FROM (SELECT order_at FROM dispensary_inbox ORDER BY seq DESC LIMIT 100)`, nil, &newest)
		return min(newest, i.now()) - inboxkit.Retention.Microseconds(), err
	})
	if err != nil {
		return err
	}
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
