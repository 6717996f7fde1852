package catalogsync_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
)

// A store is searched without a client, as of the beginning of its last complete walk.
func TestReadIndex(t *testing.T) {
	t.Parallel()
	store := catalogsync.NewMemoryStore()
	read := func() *catalogsync.Index {
		x, err := catalogsync.ReadIndex(t.Context(), store)
		require.NoError(t, err)
		return x
	}
	_, err := catalogsync.ReadIndex(t.Context(), store)
	require.ErrorIs(t, err, catalogsync.ErrNotLoaded)
	_, err = catalogsync.ReadIndex(t.Context(), nil)
	require.EqualError(t, err, "dispensary: store is nil")

	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	walk := func(generation int64, products ...catalog.Product) catalogsync.Walk {
		w := catalogsync.Walk{Generation: generation, StartedAt: start.Add(time.Duration(generation) * time.Hour)}
		require.NoError(t, store.Begin(t.Context(), w))
		w.Page, w.Total = 1, len(products)
		page, err := catalogsync.NewListed(w.StartedAt, products...)
		require.NoError(t, err)
		_, err = store.SavePage(t.Context(), w, page)
		require.NoError(t, err)
		return w
	}
	complete := func(w catalogsync.Walk, gone ...string) {
		_, err := store.Complete(t.Context(), w, gone)
		require.NoError(t, err)
	}
	zinc, kelp := entry("Zinc", "one", "", "").Product, entry("Kelp", "one", "", "").Product
	first := walk(1, zinc, kelp)
	x := read()
	assert.Equal(t, first.StartedAt, x.AsOf(), "that of a walk under way where none is complete")
	complete(first)
	second := walk(2, zinc)
	assert.Equal(t, first.StartedAt, read().AsOf())
	complete(second)
	complete(walk(3, zinc), kelp.ID)
	x = read()
	assert.Equal(t, []string{"Zinc"}, names(t, x, catalogsync.SearchOptions{BrandID: "one"}), "what is gone is not found")
	assert.Equal(t, start.Add(3*time.Hour), x.AsOf())
}
