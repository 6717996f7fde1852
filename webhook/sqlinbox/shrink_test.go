package sqlinbox_test

import (
	"database/sql"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// burst has an inbox take n events before it handles the first.
func burst(t *testing.T, inbox *sqlinbox.Inbox, gate chan struct{}, made <-chan webhook.Attempt, n int) {
	t.Helper()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range n / 10 {
				_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	close(gate)
	for range n {
		<-made
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// TestFileShrinksAfterABurst holds that the bodies of handled events take no room:
// what a burst leaves behind is hardly larger than what is in it.
func TestFileShrinksAfterABurst(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	gate := make(chan struct{})
	inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.Open(path, c) })
	burst(t, inbox, gate, made, 1000) // 2 MB of bodies
	require.NoError(t, inbox.Shrink())
	require.NoError(t, inbox.Close(t.Context()))
	db := database(t, path)
	_, err := db.ExecContext(t.Context(), "VACUUM INTO ?", path+".vacuumed")
	require.NoError(t, err)
	const spare = 256 * 4096 // is kept in any case
	assert.Less(t, float64(size(t, path)-spare), 1.5*float64(size(t, path+".vacuumed")))
}

// TestBodiesUseTheRoomOfOthers holds the same for a file that cannot shrink, as the
// program made it without that: what is deleted makes room for what comes.
func TestBodiesUseTheRoomOfOthers(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	var sizes []int64
	for range 4 {
		gate := make(chan struct{})
		inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.New(db, c) })
		burst(t, inbox, gate, made, 300) // 600 KB
		require.NoError(t, inbox.Close(t.Context()))
		checkpoint(t, db)
		sizes = append(sizes, size(t, path))
	}
	assert.Less(t, sizes[3], sizes[0]+3*300*500, "%v", sizes)
}

func checkpoint(t *testing.T, db *sql.DB) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	require.NoError(t, err)
}
