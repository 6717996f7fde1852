package catalogsync_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync"
)

// A second walk that misses the same products confirms them by their ids.
func TestSyncAcceptsShorterCatalog(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 1, 30, 70} {
		list, store := newMovingList(100), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
		mustSync(t, syncer)
		whole := list.all()
		list.change(func(ids []string) []string { return ids[:left] })
		walk, err := syncer.Sync(t.Context())
		require.ErrorIs(t, err, catalogsync.ErrTooManyMissing)
		assert.Equal(t, 1, walk.Refused)
		assert.Len(t, stored(t, store, catalogsync.Present), 100)

		before := list.requests()
		walk = mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})) // of another process
		assert.Equal(t, 100-left, walk.Missing)
		assert.Equal(t, max(1, (left+9)/10)+min(50, 100-left), list.requests()-before)
		assert.Equal(t, list.requests()-before, walk.Requests)
		assert.Equal(t, whole[left:], stored(t, store, catalogsync.Missing))
		for range 10 {
			mustSync(t, syncer)
		}
		assert.Equal(t, whole[left:], stored(t, store, catalogsync.Gone))
		state, err := store.State(t.Context())
		require.NoError(t, err)
		assert.Zero(t, state.Newest.Refused, "a complete walk starts over")
	}
}

// A walk is not confirmed by another one that missed other products.
func TestSyncRejectsListsThatDiffer(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	mustSync(t, syncer)
	whole := list.all()
	for _, ids := range [][]string{whole[30:], whole[:70], whole[30:], whole[:70]} {
		list.change(func([]string) []string { return ids })
		_, err := syncer.Sync(t.Context())
		require.ErrorIs(t, err, catalogsync.ErrTooManyMissing)
	}
	assert.Equal(t, whole, stored(t, store, catalogsync.Present))
}

// One product that the platform still has, or does not answer for, is enough to reject the list.
func TestSyncConfirmsEachOfSample(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(*movingList){
		"the platform has one": func(m *movingList) { m.hidden = []string{"p-00007"} },
		"one is not read":      func(m *movingList) { m.refuse("p-00007") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, store := newMovingList(100), catalogsync.NewMemoryStore()
			syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
			mustSync(t, syncer)
			list.change(func(ids []string) []string { return ids[30:] })
			disturb(list)
			for n := range 4 {
				walk, err := syncer.Sync(t.Context())
				require.ErrorIs(t, err, catalogsync.ErrTooManyMissing)
				if n > 0 {
					assert.ErrorContains(t, err, "p-00007")
				}
				assert.Equal(t, n+1, walk.Refused)
			}
			assert.Len(t, stored(t, store, catalogsync.Present), 100)
		})
	}
}

// An interrupted confirmation is repeated by a later walk.
func TestSyncRepeatsInterruptedConfirmation(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	mustSync(t, syncer)
	list.change(func(ids []string) []string { return ids[30:] })
	_, err := syncer.Sync(t.Context())
	require.ErrorIs(t, err, catalogsync.ErrTooManyMissing)
	budget := &limiter{most: 12}
	_, err = list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10, Limiter: budget}).Sync(t.Context())
	require.EqualError(t, err, "the budget is spent")
	assert.Equal(t, 30, mustSync(t, syncer).Missing)
}
