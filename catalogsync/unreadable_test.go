package catalogsync_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// refuse makes requests for single products fail: those that match one of the ids.
func (m *movingList) refuse(ids ...string) {
	m.before = func(r *http.Request) error {
		for _, id := range ids {
			if strings.Contains(r.URL.Path, "/catalog/products/"+id) {
				return assert.AnError
			}
		}
		return nil
	}
}

// A product that cannot be read by itself does not hold up those that are requested after it.
func TestFetchRequestedPassesOverWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(4), catalogsync.NewMemoryStore()
		list.refuse("p-00001")
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{Details: true})
		_, err := syncer.Sync(t.Context())
		require.NoError(t, err)
		require.NoError(t, store.Request(t.Context(), time.Now(), "p-00001", "p-00002", "p-00003"))
		require.ErrorIs(t, syncer.FetchRequested(t.Context()), assert.AnError)

		requested, err := store.Requested(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, requested, 1)
		assert.Equal(t, "p-00001", requested[0].ProductID, "it stays requested")
		state, err := store.State(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, state.Detailed, "the others are read, also the one that no event named")

		require.ErrorIs(t, syncer.FetchRequested(t.Context()), assert.AnError, "it is tried again")
		list.refuse()
		require.NoError(t, syncer.FetchRequested(t.Context()))
		requested, err = store.Requested(t.Context(), 10)
		require.NoError(t, err)
		assert.Empty(t, requested)
	})
}

// Where nothing can be read FetchRequested does not try every product.
func TestFetchRequestedEndsWhereNothingCanBeRead(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(10), catalogsync.NewMemoryStore()
	failures := 0
	list.before = func(*http.Request) error { failures++; return assert.AnError }
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
	require.NoError(t, store.Request(t.Context(), time.Now(), list.all()...))
	require.ErrorIs(t, syncer.FetchRequested(t.Context()), assert.AnError)
	assert.Equal(t, 3, failures)
	requested, err := store.Requested(t.Context(), 20)
	require.NoError(t, err)
	assert.Len(t, requested, 10)
}

// Events are read at once, whatever could not be read before.
func TestRunPassesOverWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(4), catalogsync.NewMemoryStore()
		list.refuse("p-00001")
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- syncer.Run(ctx) }()
		require.NoError(t, syncer.HandleEvent(ctx, productEvent("p-00001")))
		time.Sleep(30 * time.Minute) // of the test's own clock
		synctest.Wait()
		assert.Less(t, list.requests(), 2+20, "it is tried later and later")
		require.NoError(t, syncer.HandleEvent(ctx, productEvent("p-00002")))
		synctest.Wait()
		record, err := store.Get(ctx, "p-00002")
		require.NoError(t, err)
		assert.False(t, record.DetailsAt.IsZero())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// A walk is complete although a product that it did not see cannot be read by its id; that
// product stays missing.
func TestSyncPassesOverWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(30), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	_, err := syncer.Sync(t.Context())
	require.NoError(t, err)
	list.change(func(ids []string) []string { return ids[2:] })
	list.refuse("p-00000")
	for range 2 {
		_, err = syncer.Sync(t.Context())
		require.NoError(t, err)
	}
	for id, want := range map[string]catalogstore.Presence{"p-00000": catalogstore.PresenceMissing, "p-00001": catalogstore.PresenceGone, "p-00002": catalogstore.PresencePresent} {
		record, err := store.Get(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, want, record.Presence, id)
	}
}

// A single product without an id is not stored: the catalog stays searchable, and the product
// requested.
func TestProductWithoutIDIsNotStored(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(3), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
	_, err := syncer.Sync(t.Context())
	require.NoError(t, err)
	list.blank = true
	require.NoError(t, store.Request(t.Context(), time.Now(), "p-00001"))
	require.ErrorIs(t, syncer.FetchRequested(t.Context()), api.ErrBadResponse)
	assert.Len(t, names(t, loaded(t, store), catalogsync.SearchOptions{Query: "product"}), 3)
	state, err := store.State(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, state.Requested)
}
