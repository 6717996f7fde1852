package sqlinbox_test

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

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
