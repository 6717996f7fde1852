package sqlinbox_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

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
