package publish_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook/publish"
)

// ledgerFile returns a database in a file with a write-ahead log.
func ledgerFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func TestReplacedFileStopsLedger(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move or remove open files")
	}
	for _, ends := range [][]string{{"", "-wal", "-shm"}, {""}, {"-wal"}} {
		path := filepath.Join(t.TempDir(), "ledger.db")
		l, err := publish.NewLedger(t.Context(), ledgerFile(t, path))
		require.NoError(t, err)
		_, err = l.ClaimCheckpoint(t.Context(), "name", "holder", time.Minute)
		require.NoError(t, err)
		for _, end := range ends {
			require.NoError(t, os.Rename(path+end, path+".old"+end))
		}
		for range 2 {
			err = l.SaveCheckpoint(t.Context(), "name", "holder", nil, time.Minute)
			require.ErrorIs(t, err, publish.ErrReplaced)
		}
		require.ErrorIs(t, l.CheckWrite(t.Context()), publish.ErrReplaced)
	}
}

func TestLedgerRejectsHardLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not count links")
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Link(path, path+".link"))
	_, err := publish.NewLedger(t.Context(), ledgerFile(t, path))
	require.ErrorIs(t, err, publish.ErrUnsafePath)
}

// A ledger also works with a rollback journal, and in memory.
func TestLedgerToleratesOtherJournals(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"file:" + filepath.Join(t.TempDir(), "ledger.db"), "file::memory:?cache=shared"} {
		db, err := sql.Open("sqlite", name)
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		l, err := publish.NewLedger(t.Context(), db)
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, l.CheckWrite(t.Context()))
		}
		require.NoError(t, db.Close())
	}
}
