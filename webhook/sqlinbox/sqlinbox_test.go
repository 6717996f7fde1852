package sqlinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestInboxPassesConformanceSuite(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(t *testing.T) enginetest.Storage {
		path, keys := filepath.Join(t.TempDir(), "in box?%.db"), receivertest.KeyRing(t)
		open := func(work webhook.Work, aead seal.AEAD) (engine.Engine, error) {
			inbox, err := sqlinbox.Open(path, sqlinbox.Config{Work: work, Seal: aead})
			if err != nil {
				return nil, err
			}
			return inbox, nil
		}
		return enginetest.Storage{
			Durable:    true,
			Ordered:    true,
			Open:       func(work webhook.Work) (engine.Engine, error) { return open(work, keys) },
			OpenSealed: open,
			Crash:      func(e engine.Engine) { e.(*sqlinbox.Inbox).Crash() },
			Dump:       func(t *testing.T) []byte { return dump(t, path) },
			InTransaction: func(ctx context.Context, then func() error) error {
				return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
					return errors.Join(insertRow(ctx, tx), then())
				})
			},
			Rows: func(t *testing.T) []string { return rows(t, path) },
		}
	})
}

// insertRow inserts a row into a table of the program.
func insertRow(ctx context.Context, tx sqlinbox.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (key) VALUES (?)", webhook.HandlingFrom(ctx).Key.String())
	return err
}

// rows returns the rows in a table of the program.
func rows(t *testing.T, path string) []string {
	t.Helper()
	name, err := sqlinbox.DSN(path)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", name)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE IF NOT EXISTS effects (key TEXT NOT NULL)")
	require.NoError(t, err)
	var keys []string
	for key, n := range countTexts(t, db, "SELECT key FROM effects") {
		keys = append(keys, slices.Repeat([]string{key}, n)...)
	}
	return keys
}

// dump returns the contents of all files in the folder of the database, including the
// write-ahead log.
func dump(t *testing.T, path string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	var all bytes.Buffer
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		all.WriteString(file)
		all.Write(content)
	}
	return all.Bytes()
}
