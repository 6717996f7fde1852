package sqlinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/enginetest"
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

// config returns the configuration of most tests.
func config(t testing.TB, handle webhook.HandlerFunc) sqlinbox.Config {
	t.Helper()
	return sqlinbox.Config{Seal: receivertest.KeyRing(t), Work: webhook.Work{Handle: handle}}
}

// database opens a database of the program.
func database(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// closed closes an inbox at the end of the test, and requires no error.
func closed(t testing.TB, inbox *sqlinbox.Inbox) *sqlinbox.Inbox {
	t.Helper()
	t.Cleanup(func() { assert.NoError(t, inbox.Close(context.Background())) })
	return inbox
}

// newPath returns the path of a new file.
func newPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "inbox.db")
}

// open opens an inbox until the end of the test.
func open(t testing.TB, path string, c sqlinbox.Config) *sqlinbox.Inbox {
	t.Helper()
	inbox, err := sqlinbox.Open(path, c)
	require.NoError(t, err)
	return closed(t, inbox)
}

// gated opens an inbox whose handlers wait until gate is closed.
func gated(t *testing.T, gate <-chan struct{}, open func(sqlinbox.Config) (*sqlinbox.Inbox, error)) (*sqlinbox.Inbox, <-chan webhook.Attempt) {
	t.Helper()
	c := config(t, func(ctx context.Context, _ events.Event) error { return receivertest.Until(ctx, gate) })
	made := receivertest.Observe(&c.Work)
	inbox, err := open(c)
	require.NoError(t, err)
	return closed(t, inbox), made
}

// countTexts counts the texts in the result of a query.
func countTexts(t *testing.T, db *sql.DB, query string) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	counts := map[string]int{}
	for rows.Next() {
		var text string
		require.NoError(t, rows.Scan(&text))
		counts[text]++
	}
	require.NoError(t, rows.Err())
	require.NoError(t, rows.Close())
	return counts
}

// clock is a clock with an adjustable offset.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// TestMain also runs the receiver of TestKill.
func TestMain(m *testing.M) {
	if folder := os.Getenv("SQLINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receivertest.Receiver{
			Folder: folder, CrashOneIn: testsize.Of(150, 3000), Effect: effect,
			Open: func(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
				return sqlinbox.Open(folder+"/inbox.db", sqlinbox.Config{Work: work, Seal: ring})
			},
		}.Run())
	}
	os.Exit(m.Run())
}

func effect(ctx context.Context, _ string) error { return sqlinbox.InTransaction(ctx, insertRow) }

// TestKill kills the receiver, even between an accept and its response, while
// duplicate and unordered events arrive for two integrations. Every acknowledged event must be
// durable, stored once, and handled. Each row written in the transaction of the inbox must
// exist once.
func TestKill(t *testing.T) {
	testsize.SkipUnderRace(t)
	k := receivertest.NewKillTest(t, testsize.Of(150, 10_000), "in_1", "in_2")
	path := filepath.Join(k.Folder, "inbox.db")
	db := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE effects (key TEXT NOT NULL)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	k.Environ = []string{"SQLINBOX_TEST_RECEIVER=" + k.Folder}
	k.Ended = func() { checkAcked(t, k) }
	k.Drained = func() bool {
		db := database(t, path)
		defer func() { _ = db.Close() }()
		return len(countTexts(t, db, "SELECT key FROM dispensary_inbox WHERE state < 5")) == 0
	}
	k.Run(t)
	k.Check(t)
	assert.Zero(t, k.Exits)
	db = database(t, path)
	k.CheckTables(t,
		countTexts(t, db, "SELECT key FROM dispensary_inbox"),
		countTexts(t, db, "SELECT key FROM dispensary_inbox WHERE state = 6 AND attempts > 0 AND seq NOT IN (SELECT seq FROM dispensary_inbox_bodies)"),
		countTexts(t, db, "SELECT key FROM effects"))
	assert.NotContains(t, string(dump(t, path)), receivertest.Canary)
}

// checkAcked requires that the database contains every event that a dead process has
// acknowledged. It reads a copy, so that the next process finds the files as the crash left
// them.
func checkAcked(t *testing.T, k *receivertest.KillTest) {
	t.Helper()
	acked, copied := k.Acked(), t.TempDir()
	for _, name := range []string{"inbox.db", "inbox.db-wal"} {
		content, err := os.ReadFile(filepath.Join(k.Folder, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(copied, name), content, 0o600))
	}
	db := database(t, filepath.Join(copied, "inbox.db"))
	stored := countTexts(t, db, "SELECT key FROM dispensary_inbox")
	require.NoError(t, db.Close())
	require.NoError(t, os.RemoveAll(copied))
	for _, key := range acked {
		require.Equal(t, 1, stored[key], "%s was acknowledged but is not stored once", key)
	}
}
