package sqlinbox_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// skipOnWindows skips a test that moves or removes open files.
func skipOnWindows(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot move or remove open files")
	}
}

// holding opens an inbox whose handlers run until the end of the test.
func holding(t *testing.T, path string) *sqlinbox.Inbox {
	t.Helper()
	inbox, err := sqlinbox.Open(path, config(t, receivertest.Hold))
	require.NoError(t, err)
	t.Cleanup(func() { interrupt(t, inbox) })
	return inbox
}

// interrupt closes an inbox without waiting for its handlers.
func interrupt(t *testing.T, inbox *sqlinbox.Inbox) {
	t.Helper()
	ended, end := context.WithCancel(context.Background())
	end()
	require.NoError(t, inbox.Close(ended))
}

// move renames all existing files of an inbox.
func move(t *testing.T, from, to string) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm", ".lock"} {
		if err := os.Rename(from+end, to+end); !os.IsNotExist(err) {
			require.NoError(t, err)
		}
	}
}

// replacements replace a file of the open inbox at path.
var replacements = map[string]func(t *testing.T, path string){
	"removed": func(t *testing.T, path string) {
		for _, end := range []string{"", "-wal", "-shm"} {
			require.NoError(t, os.Remove(path+end))
		}
	},
	"moved aside": func(t *testing.T, path string) { move(t, path, path+".old") },
	"folder moved": func(t *testing.T, path string) {
		require.NoError(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
	},
	"older copy in place": func(t *testing.T, path string) {
		older := newPath(t)
		inbox, err := sqlinbox.Open(older, config(t, receivertest.Hold))
		require.NoError(t, err)
		require.NoError(t, inbox.Close(context.Background()))
		require.NoError(t, os.Rename(older, path))
	},
	"log removed":  func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-wal")) },
	"lock removed": func(t *testing.T, path string) { require.NoError(t, os.Remove(path+".lock")) },
}

func TestReplacedFileStopsInbox(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logtest.Buffer
			path := filepath.Join(t.TempDir(), "folder", "inbox.db")
			require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
			c := config(t, receivertest.Hold)
			c.Work.Logger = logtest.NewLogger(&log)
			inbox, err := sqlinbox.Open(path, c)
			require.NoError(t, err)
			stored := receivertest.Accept(t, inbox)

			replace(t, path)
			for range 3 {
				_, err = inbox.Accept(t.Context(), receivertest.NewDelivery())
				require.ErrorIs(t, err, api.ErrReplaced)
			}
			require.ErrorIs(t, inbox.CheckWrite(t.Context()), api.ErrReplaced)
			_, err = inbox.Stats(t.Context())
			require.ErrorIs(t, err, api.ErrReplaced)
			_, err = inbox.Missing(t.Context(), []webhook.Key{stored.Key})
			require.ErrorIs(t, err, api.ErrReplaced)
			_, err = inbox.Replay(t.Context(), engine.Filter{Keys: []webhook.Key{stored.Key}})
			require.ErrorIs(t, err, api.ErrReplaced)
			_, err = inbox.ClaimCheckpoint(t.Context(), "name", "holder", 1)
			require.ErrorIs(t, err, api.ErrReplaced)

			interrupt(t, inbox)
			assert.Equal(t, 1, strings.Count(log.String(), "webhook inbox stopped"), log.String())
			assert.NotContains(t, log.String(), "cannot claim")
		})
	}
}

// An operator moves the files of a draining process aside and starts the next process.
func TestStoppedInboxKeepsSuccessorLog(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path := newPath(t)
	first := holding(t, path)
	receivertest.Accept(t, first)
	move(t, path, path+".old")

	second := holding(t, path)
	receivertest.Accept(t, second)
	_, err := first.Accept(t.Context(), receivertest.NewDelivery())
	require.ErrorIs(t, err, api.ErrReplaced)
	interrupt(t, first)
	assert.FileExists(t, path+"-wal")
	receivertest.Accept(t, second)
}

// A health check notices the replacement while no events arrive.
func TestWriteCheckNoticesReplacedFile(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path := newPath(t)
	inbox := holding(t, path)
	require.NoError(t, inbox.CheckWrite(t.Context()))
	move(t, path, path+".old")
	require.ErrorIs(t, inbox.CheckWrite(t.Context()), api.ErrReplaced)
}

func TestReplacedFileStopsReader(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path := newPath(t)
	inbox, err := sqlinbox.Open(path, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(context.Background()))
	tool, err := sqlinbox.OpenReader(path)
	require.NoError(t, err)
	move(t, path, path+".old")
	_, err = tool.Stats(t.Context())
	require.ErrorIs(t, err, api.ErrReplaced)
	require.NoError(t, tool.Close(context.Background()))
}

// SQLite may truncate, reset and rewrite its files while the inbox is open.
func TestInboxToleratesMaintenanceOfFiles(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	inbox := open(t, path, config(t, receivertest.Succeed))
	for range 3 {
		for _, statement := range []string{
			"PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(RESTART)", "PRAGMA optimize", "PRAGMA journal_mode = WAL",
		} {
			db := database(t, path)
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err, statement)
			receivertest.Accept(t, inbox)
			require.NoError(t, db.Close())
			receivertest.Accept(t, inbox)
		}
		tool, err := sqlinbox.OpenReader(path)
		require.NoError(t, err)
		_, err = tool.Stats(t.Context())
		require.NoError(t, err)
		require.NoError(t, tool.Close(context.Background()))
		receivertest.Accept(t, inbox)
	}
}

func TestInboxFollowsSymbolicLink(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path, link := newPath(t), newPath(t)
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	inbox := holding(t, link)
	receivertest.Accept(t, inbox)
	_, err := sqlinbox.Open(path, config(t, receivertest.Hold))
	require.ErrorIs(t, err, sqlinbox.ErrInUse)

	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(newPath(t), link))
	_, err = inbox.Accept(t.Context(), receivertest.NewDelivery())
	require.ErrorIs(t, err, api.ErrReplaced)
}

func TestOpenRejectsHardLink(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path, link := newPath(t), newPath(t)
	inbox := holding(t, path)
	require.NoError(t, os.Link(path, link))
	receivertest.Accept(t, inbox) // a link created later is allowed

	_, err := sqlinbox.Open(link, config(t, receivertest.Hold))
	require.ErrorIs(t, err, api.ErrUnsafePath)
	require.ErrorContains(t, err, "2 hard links")
	_, err = sqlinbox.OpenReader(link)
	require.ErrorIs(t, err, api.ErrUnsafePath)
}

func TestNewRejectsHardLink(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path := newPath(t)
	db := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	require.NoError(t, os.Link(path, newPath(t)))
	_, err := sqlinbox.New(db, config(t, receivertest.Hold))
	require.ErrorIs(t, err, api.ErrUnsafePath)
}

// TestBackupAndRestoreKeepEvents follows the section "Backup and restore" of the package
// comment.
func TestBackupAndRestoreKeepEvents(t *testing.T) {
	t.Parallel()
	path, backup, c := newPath(t), newPath(t), config(t, receivertest.Hold)
	inbox, err := sqlinbox.Open(path, c)
	require.NoError(t, err)
	before := receivertest.Accept(t, inbox)

	db := database(t, path)
	_, err = db.ExecContext(t.Context(), "VACUUM INTO ?", backup)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	after := receivertest.Accept(t, inbox)
	inbox.Crash()

	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + end); !os.IsNotExist(err) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Rename(backup, path))
	handled := make(chan webhook.Attempt, 2)
	c.Work.Handle = receivertest.Succeed
	c.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { handled <- a }
	inbox = open(t, path, c)
	assert.Equal(t, before.Key, (<-handled).Key)
	missing, err := inbox.Missing(t.Context(), []webhook.Key{before.Key, after.Key})
	require.NoError(t, err)
	assert.Equal(t, []webhook.Key{after.Key}, missing, "reconcile would accept it")

	restored := database(t, path)
	var integrity, mode string
	require.NoError(t, restored.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&integrity))
	assert.Equal(t, "ok", integrity)
	require.NoError(t, restored.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode))
	assert.Equal(t, "wal", mode)
}

// A connection of a pool may be older than the file at the path.
func TestNewRejectsReplacedFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	path := newPath(t)
	dsn, err := sqlinbox.DSN(path)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	for _, end := range []string{"", "-wal", "-shm"} {
		require.NoError(t, os.Remove(path+end))
	}
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = sqlinbox.New(db, config(t, receivertest.Hold))
	require.ErrorIs(t, err, api.ErrReplaced)
}
