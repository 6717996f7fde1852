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

// refuse makes requests for single products fail if their id begins with one of ids.
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

// An unreadable product must not block the products requested after it.
func TestFetchRequestedSkipsUnreadableProduct(t *testing.T) {
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
		assert.Equal(t, "p-00001", requested[0].ProductID, "the request stays")
		state, err := store.State(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, state.Detailed, "the other products are read, also the unrequested one")

		require.ErrorIs(t, syncer.FetchRequested(t.Context()), assert.AnError, "FetchRequested retries at once")
		list.refuse()
		require.NoError(t, syncer.FetchRequested(t.Context()))
		requested, err = store.Requested(t.Context(), 10)
		require.NoError(t, err)
		assert.Empty(t, requested)
	})
}

// If no product can be read, FetchRequested must stop early.
func TestFetchRequestedStopsAfterThreeFailures(t *testing.T) {
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

// Earlier failures must not delay the product of a new event.
func TestRunPostponesUnreadableProduct(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(4), catalogsync.NewMemoryStore()
		list.refuse("p-00001")
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- syncer.Run(ctx) }()
		require.NoError(t, syncer.HandleEvent(ctx, productEvent("p-00001")))
		time.Sleep(30 * time.Minute) // in the time of synctest
		synctest.Wait()
		assert.Less(t, list.requests(), 2+20, "the wait between retries grows")
		require.NoError(t, syncer.HandleEvent(ctx, productEvent("p-00002")))
		synctest.Wait()
		record, err := store.Get(ctx, "p-00002")
		require.NoError(t, err)
		assert.False(t, record.DetailsAt.IsZero())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// An unreadable product must stay missing, and the walk must still complete.
func TestSyncKeepsUnreadableProductMissing(t *testing.T) {
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

// A single product without an id must not be stored. The request must stay.
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
