package sqlinbox_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// write inserts a row of the program's own.
func write(ctx context.Context, tx sqlinbox.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (key) VALUES (?)", webhook.HandlingFrom(ctx).Key.String())
	return err
}

func TestInTransactionIsBothOrNeither(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	after := func(f func() error) func(context.Context) error {
		return func(ctx context.Context) error {
			return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
				if err := write(ctx, tx); err != nil {
					return err
				}
				return f()
			})
		}
	}
	for name, c := range map[string]struct {
		first func(context.Context) error // of the first attempt; the others write and receivertest.Succeed
		made  []webhook.Result
	}{
		"success": {after(func() error { return nil }), []webhook.Result{webhook.ResultHandled}},
		"error":   {after(func() error { return no }), []webhook.Result{webhook.ResultFailed, webhook.ResultHandled}},
		"panic":   {after(func() error { panic("no") }), []webhook.Result{webhook.ResultFailed, webhook.ResultHandled}},
		"goexit":  {after(func() error { runtime.Goexit(); return nil }), []webhook.Result{webhook.ResultFailed, webhook.ResultHandled}},
		"late error": {func(ctx context.Context) error {
			return errors.Join(sqlinbox.InTransaction(ctx, write), no)
		}, []webhook.Result{webhook.ResultHandled}},
		"twice": {func(ctx context.Context) error {
			err := sqlinbox.InTransaction(ctx, write)
			assert.NoError(t, err)
			assert.Error(t, sqlinbox.InTransaction(ctx, write))
			return nil
		}, []webhook.Result{webhook.ResultHandled}},
		"ended": {func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return sqlinbox.InTransaction(ctx, write)
		}, []webhook.Result{webhook.ResultFailed, webhook.ResultHandled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(t, filepath.Join(t.TempDir(), "program.db"))
			require.NoError(t, sqlinbox.Migrate(t.Context(), db))
			_, err := db.ExecContext(t.Context(), "CREATE TABLE effects (key TEXT NOT NULL)")
			require.NoError(t, err)
			config := config(t, func(ctx context.Context, _ events.Event) error {
				if webhook.HandlingFrom(ctx).Attempt == 1 {
					return c.first(ctx)
				}
				return sqlinbox.InTransaction(ctx, write)
			})
			config.Work.Retry.BackOff = time.Millisecond
			config.Work.Order = webhook.ByObject
			work, made := observed(config.Work)
			config.Work = work
			inbox, err := sqlinbox.New(db, config)
			require.NoError(t, err)
			closed(t, inbox)
			d := accept(t, inbox)
			for _, want := range c.made {
				assert.Equal(t, want, (<-made).Result)
			}
			assert.Equal(t, map[string]int{d.Key.String(): 1}, countTexts(t, db, "SELECT key FROM effects"))
			stats, err := inbox.Stats(t.Context())
			require.NoError(t, err)
			assert.Zero(t, stats)
			accept(t, inbox)
			assert.NotEmpty(t, <-made, "the writer goes on")
		})
	}
}

func TestInTransactionIsForHandlers(t *testing.T) {
	t.Parallel()
	require.Error(t, sqlinbox.InTransaction(t.Context(), write))
}
