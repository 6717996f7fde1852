package sqlinbox_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestDSNRejectsMemoryAndURI(t *testing.T) {
	t.Parallel()
	for _, path := range []string{":memory:", "file:inbox.db"} {
		_, err := sqlinbox.DSN(path)
		require.ErrorIs(t, err, api.ErrArgument)
	}
}

// TestAcceptWaitsForProgramTransactions copies rows into the shared file while webhooks
// arrive, in transactions of 100 rows that begin with a read.
func TestAcceptWaitsForProgramTransactions(t *testing.T) {
	t.Parallel()
	dsn, err := sqlinbox.DSN(filepath.Join(t.TempDir(), "program?%.db"))
	require.NoError(t, err)
	db, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	for _, table := range []string{"CREATE TABLE effects (key TEXT NOT NULL)", "CREATE TABLE products (id INTEGER PRIMARY KEY)"} {
		_, err = db.ExecContext(t.Context(), table)
		require.NoError(t, err)
	}
	c := config(t, func(ctx context.Context, _ events.Event) error { return effect(ctx, "") })
	made := receivertest.Observe(&c.Work)
	inbox, err := sqlinbox.New(db, c)
	require.NoError(t, err)
	closed(t, inbox)
	const pages, senders, each = 30, 4, 50
	var group sync.WaitGroup
	group.Go(func() {
		for range pages {
			if !assert.NoError(t, copyPage(t.Context(), db)) {
				return
			}
		}
	})
	for range senders {
		group.Go(func() {
			for range each {
				_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	for range senders * each {
		a := <-made
		assert.Equal(t, webhook.ResultHandled, a.Result)
		assert.Equal(t, 1, a.Number)
	}
	assert.Len(t, countTexts(t, db, "SELECT key FROM effects"), senders*each)
	assert.Len(t, countTexts(t, db, "SELECT id FROM products"), pages*100)
}

func copyPage(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var last int
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM products").Scan(&last); err != nil {
		return err
	}
	for n := range 100 {
		if _, err := tx.ExecContext(ctx, "INSERT INTO products (id) VALUES (?)", last+1+n); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// All files of an inbox are readable for their owner only.
func TestDSNCreatesPrivateFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	dsn, err := sqlinbox.DSN(filepath.Join(folder, "program.db"))
	require.NoError(t, err)
	db, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE mine (id INTEGER)")
	require.NoError(t, err)
	open(t, filepath.Join(folder, "program.db"), config(t, receivertest.Succeed))
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 4, "database, log, its index, lock")
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000"} {
		var got string
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		assert.Equal(t, want, got, pragma)
	}
	_, err = sqlinbox.DSN(filepath.Join(folder, "no", "such", "folder.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
