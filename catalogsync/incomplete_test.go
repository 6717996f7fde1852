package catalogsync_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// If a list ends before its own count, the walk must not complete. The next Sync must continue
// the walk when the list is whole.
func TestSyncReportsIncompleteList(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{1, 10, 20, 45, 49} {
		for _, prefetch := range []int{1, 4} {
			list, store := newMovingList(50), catalogsync.NewMemoryStore()
			list.cut = cut
			syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10, Prefetch: prefetch})
			for range 3 {
				walk, err := syncer.Sync(t.Context())
				require.ErrorAs(t, err, new(*api.IncompleteListError))
				assert.EqualError(t, err, fmt.Sprintf("catalogsync: incomplete list: it ended after %d of 50 records", cut))
				assert.True(t, walk.CompletedAt.IsZero())
			}
			state, err := store.State(t.Context())
			require.NoError(t, err)
			assert.Zero(t, state.Complete.Generation)
			assert.Equal(t, cut, state.Records[catalogstore.PresencePresent], "the read products are stored")
			list.cut = 0
			assert.Equal(t, 50, mustSync(t, syncer).Total)
			assert.Len(t, stored(t, store, catalogstore.PresencePresent), 50)
		}
	}
}
