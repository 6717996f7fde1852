package catalogstoretest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// walks are the tests of walks over the whole list.
var walks = map[string]func(*testing.T, opener){
	"Empty":            empty,
	"Lock":             lock,
	"Begin":            begin,
	"SavePage":         savePage,
	"SaveUpdated":      saveUpdated,
	"Superseded":       superseded,
	"MissingIsGone":    missingIsGone,
	"Reappears":        reappears,
	"ReadDuringWalk":   readDuringWalk,
	"Unlisted":         unlisted,
	"CanceledContext":  canceledContext,
	"SmallPagesOfMany": smallPagesOfMany,
}

func empty(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	assert.Equal(t, catalogstore.State{Records: map[catalogstore.Presence]int{}}, state(t, store))
	_, err := store.Get(ctx, "a")
	require.ErrorIs(t, err, catalogstore.ErrNotStored)
	assert.Empty(t, feed(t, store, 0, 10))
	assert.Empty(t, requested(t, store))
	ids, err := store.Undetailed(ctx, "", 10)
	require.NoError(t, err)
	assert.Empty(t, ids)
	ids, err = store.Unlisted(ctx, catalogstore.Walk{Generation: 1, StartedAt: t0}, 10)
	require.NoError(t, err)
	assert.Empty(t, ids)
	_, err = store.SavePage(ctx, catalogstore.Walk{}, page(t, 0, listedAll("a")...))
	require.ErrorIs(t, err, catalogstore.ErrSuperseded, "no walk has begun")
	_, err = store.Complete(ctx, catalogstore.Walk{CompletedAt: t0}, nil)
	require.ErrorIs(t, err, catalogstore.ErrSuperseded)
	require.NoError(t, store.Drop(ctx, catalogstore.Request{ProductID: "a", At: t0}))
	require.NoError(t, store.SaveAttributes(ctx, map[string]catalogstore.Attributes{"a": {IngredientIDs: []string{"i"}}}))
	assert.Equal(t, catalogstore.State{Records: map[catalogstore.Presence]int{}}, state(t, store))
}

func lock(t *testing.T, open opener) {
	one, two := open(), open()
	unlock, err := one.Lock(t.Context())
	require.NoError(t, err)
	for _, store := range []catalogstore.Store{one, two} {
		_, err = store.Lock(t.Context())
		require.ErrorIs(t, err, catalogstore.ErrSyncing)
	}
	walked(t, two, 0, listedAll("a")...) // other methods work without the lock
	require.NoError(t, unlock())
	other, err := two.Lock(t.Context())
	require.NoError(t, err)
	_, err = one.Lock(t.Context())
	require.ErrorIs(t, err, catalogstore.ErrSyncing)
	require.NoError(t, other())

	ctx, cancel := context.WithCancel(t.Context())
	unlock, err = one.Lock(ctx)
	require.NoError(t, err)
	cancel()
	_, err = two.Lock(t.Context())
	require.ErrorIs(t, err, catalogstore.ErrSyncing, "canceling the context keeps the lock")
	require.NoError(t, unlock())
	unlock, err = two.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, unlock())
}

func begin(t *testing.T, open opener) {
	store := open()
	first := catalogstore.Walk{Generation: 1, StartedAt: t0, PageSize: 50, Requests: 1, Skipped: 2}
	require.NoError(t, store.Begin(t.Context(), first))
	requireWalk(t, first, state(t, store).Newest)
	requireWalk(t, catalogstore.Walk{}, state(t, store).Complete)
	for _, generation := range []int64{0, 1, 3} {
		require.ErrorIs(t, store.Begin(t.Context(), catalogstore.Walk{Generation: generation, StartedAt: at(1)}), catalogstore.ErrSuperseded, generation)
	}
	requireWalk(t, first, state(t, store).Newest)

	first = completed(t, store, first)
	requireWalk(t, first, state(t, store).Newest)
	requireWalk(t, first, state(t, store).Complete, "the same walk after its end")
	second := began(t, store, 100)
	assert.EqualValues(t, 2, second.Generation)
	requireWalk(t, second, state(t, store).Newest)
	requireWalk(t, first, state(t, store).Complete)
	began(t, store, 200) // supersedes an incomplete walk
}

func saveUpdated(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b", "c")...)
	detailed(t, store, 2, single("c", "Product c", "text"))
	w := began(t, store, 100)
	assert.Equal(t, catalogstore.Counts{Updated: 2, Unchanged: 1}, saved(t, store, &w, 101, listed("a", "New"), listed("b", "Product b"), listed("c", "New")))
	assert.Equal(t, "New", get(t, store, "a").Product.Name)
	for _, id := range []string{"a", "b", "c"} {
		assert.Equal(t, kept(at(101)), get(t, store, id).ReadAt.UTC(), id)
	}
	assert.Equal(t, []catalogstore.Request{{ProductID: "c", At: kept(at(101))}}, requested(t, store))
}

func savePage(t *testing.T, open opener) {
	store := open()
	w := began(t, store, 0)
	w.Total = 4
	assert.Equal(t, catalogstore.Counts{Created: 2}, saved(t, store, &w, 1, listedAll("a", "b")...))
	requireWalk(t, w, state(t, store).Newest)
	assert.Equal(t, catalogstore.Counts{Created: 1, Repeated: 1}, saved(t, store, &w, 2, listedAll("b", "c")...), "the walk has already seen b")
	assert.Equal(t, catalogstore.Counts{}, saved(t, store, &w, 3), "an empty page stores the progress")
	requireWalk(t, w, state(t, store).Newest)
	a := get(t, store, "a")
	want, _ := catalogstore.Record{}.Listed(listed("a", "Product a"), at(1))
	requireSame(t, want, a)
	assert.EqualValues(t, 1, a.Revision)
	completed(t, store, w)

	w = began(t, store, 100)
	before := get(t, store, "b").Revision
	renamed := listed("a", "New")
	assert.Equal(t, catalogstore.Counts{Updated: 1, Unchanged: 1}, saved(t, store, &w, 101, renamed, listed("b", "Product b")))
	assert.Equal(t, "New", get(t, store, "a").Product.Name)
	assert.Greater(t, get(t, store, "a").Revision, a.Revision)
	assert.Equal(t, before, get(t, store, "b").Revision, "an unchanged record keeps its revision")
	assert.Equal(t, kept(at(101)), get(t, store, "b").ReadAt.UTC())
	assert.Equal(t, catalogstore.Counts{Repeated: 1}, saved(t, store, &w, 102, listed("a", "Newer")))
	assert.Equal(t, "Newer", get(t, store, "a").Product.Name, "a repeated product is stored")

	assert.Equal(t, catalogstore.Counts{Unchanged: 1}, saved(t, store, &w, 1, listed("c", "Old")))
	assert.Equal(t, "Product c", get(t, store, "c").Product.Name, "an older page changes no content")
	w.Page = 1 // a walk may go back
	_, err := store.SavePage(t.Context(), w, nil)
	require.NoError(t, err)
	requireWalk(t, w, state(t, store).Newest)
	assert.Zero(t, completed(t, store, w).Missing, "an older page marks c as seen")
}

func superseded(t *testing.T, open opener) {
	one, two := open(), open()
	old := began(t, one, 0)
	saved(t, one, &old, 1, listedAll("a", "b")...)
	young := began(t, two, 10)
	saved(t, two, &young, 11, listedAll("a")...)
	refused := func(w catalogstore.Walk) {
		t.Helper()
		same := unchanged(t, one)
		_, err := one.SavePage(t.Context(), w, page(t, 20, listedAll("x")...))
		require.ErrorIs(t, err, catalogstore.ErrSuperseded)
		w.CompletedAt = at(30)
		_, err = one.Complete(t.Context(), w, nil)
		require.ErrorIs(t, err, catalogstore.ErrSuperseded)
		same()
	}
	refused(old)
	later := young
	later.Generation++
	refused(later)
	refused(completed(t, two, young)) // already complete
	assert.Equal(t, catalogstore.PresenceMissing, presence(t, one, "b"), "missing only")
}

func missingIsGone(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b", "c", "d")...)
	detailed(t, store, 50, single("b", "B", ""))
	walked(t, store, 100, listedAll("a", "d")...)
	w := began(t, store, 200)
	saved(t, store, &w, 201, listedAll("a")...)
	w = completed(t, store, w, "a", "b", "b", "d", "unknown") // a was seen, and d is not missing yet
	assert.Equal(t, 1, w.Missing, "d")
	assert.Equal(t, 1, w.Gone, "b")
	for id, want := range map[string]catalogstore.Presence{"a": catalogstore.PresencePresent, "b": catalogstore.PresenceGone, "c": catalogstore.PresenceMissing, "d": catalogstore.PresenceMissing} {
		assert.Equal(t, want, presence(t, store, id), id)
	}
	assert.Equal(t, map[catalogstore.Presence]int{catalogstore.PresencePresent: 1, catalogstore.PresenceMissing: 2, catalogstore.PresenceGone: 1}, state(t, store).Records)
	records := feed(t, store, 0, 10)
	assert.Len(t, records, 4, "Changes returns gone records")
	gone := get(t, store, "b").Revision
	walked(t, store, 300, listedAll("a", "c", "d")...)
	assert.Equal(t, gone, get(t, store, "b").Revision, "gone stays gone")
	assert.Zero(t, state(t, store).Detailed, "Detailed ignores gone records")
	detailed(t, store, 310, single("b", "B", ""))
	assert.Equal(t, catalogstore.PresenceMissing, presence(t, store, "b"), "it was read by its id")
	assert.Greater(t, get(t, store, "b").Revision, gone)
	assert.Equal(t, 1, state(t, store).Detailed)
}

func reappears(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b")...)
	walked(t, store, 100)
	w := began(t, store, 200)
	assert.Equal(t, catalogstore.Counts{Updated: 1}, saved(t, store, &w, 201, listedAll("a")...))
	assert.Equal(t, catalogstore.PresencePresent, presence(t, store, "a"))
	completed(t, store, w, "b")
	assert.Equal(t, catalogstore.PresenceGone, presence(t, store, "b"))
	before := state(t, store).Revision
	w = began(t, store, 300)
	assert.Equal(t, catalogstore.Counts{Updated: 1}, saved(t, store, &w, 301, listedAll("b")...), "the record exists already")
	assert.Equal(t, catalogstore.PresencePresent, presence(t, store, "b"))
	assert.Equal(t, before+1, state(t, store).Revision)
	assert.Equal(t, 1, completed(t, store, w).Missing, "a")
}

// readDuringWalk reads single products after the walk began. The walk may have read its page
// before such a product was in the list.
func readDuringWalk(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b", "c")...)
	w := began(t, store, 100)
	saved(t, store, &w, 101, listedAll("a")...)
	detailed(t, store, 99, single("b", "Product b", ""))
	detailed(t, store, 102, single("c", "Product c", ""))
	detailed(t, store, 102, single("new", "New", ""))
	assert.Equal(t, 1, completed(t, store, w).Missing)
	for id, want := range map[string]catalogstore.Presence{"a": catalogstore.PresencePresent, "b": catalogstore.PresenceMissing, "c": catalogstore.PresencePresent, "new": catalogstore.PresencePresent} {
		assert.Equal(t, want, presence(t, store, id), id)
	}
	assert.Equal(t, 2, walked(t, store, 200, listedAll("a", "b")...).Missing, "c and new")
	detailed(t, store, 201, single("c", "Product c", ""))
	assert.Equal(t, catalogstore.PresenceMissing, presence(t, store, "c"), "a single read keeps the presence")
}

func unlisted(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	walked(t, store, 0, listedAll("a", "b", "c", "d", "e")...)
	walked(t, store, 100, listedAll("e")...)
	want := func(w catalogstore.Walk, limit int, ids ...string) {
		t.Helper()
		got, err := store.Unlisted(ctx, w, limit)
		require.NoError(t, err)
		assert.Equal(t, ids, append([]string(nil), got...))
	}
	detailed(t, store, 150, single("b", "Product b", ""))
	detailed(t, store, 130, single("d", "Product d", ""))
	detailed(t, store, 140, single("c", "Product c", ""))
	w := began(t, store, 200)
	want(w, math.MaxInt, "a", "d", "c", "b")
	want(w, 2, "a", "d")
	saved(t, store, &w, 201, listedAll("d")...)
	want(w, 10, "a", "c", "b") // e was seen by the last walk, so it is not missing yet
	detailed(t, store, 202, single("c", "Product c", ""))
	want(w, 10, "a", "b")
	done := completed(t, store, w, "a")
	assert.Equal(t, []int{1, 1}, []int{done.Missing, done.Gone})
	w.CompletedAt, w.Missing, w.Gone = done.CompletedAt, 1, 1
	requireWalk(t, w, done)
	w = began(t, store, 300)
	want(w, 10, "e", "b", "c")
}

func errorOf[T any](_ T, err error) error { return err }

// canceledContext checks that a call with a canceled context has no effect.
func canceledContext(t *testing.T, open opener) {
	store := open()
	walked(t, store, 0, listedAll("a", "b")...)
	w := began(t, store, 100)
	require.NoError(t, store.Request(t.Context(), at(1), "a"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	same := unchanged(t, store)
	for name, call := range map[string]func(context.Context) error{
		"Lock":  func(ctx context.Context) error { return errorOf(store.Lock(ctx)) },
		"State": func(ctx context.Context) error { return errorOf(store.State(ctx)) },
		"Begin": func(ctx context.Context) error {
			return store.Begin(ctx, catalogstore.Walk{Generation: 3, StartedAt: at(1)})
		},
		"SavePage": func(ctx context.Context) error {
			return errorOf(store.SavePage(ctx, w, page(t, 101, listedAll("c")...)))
		},
		"Unlisted": func(ctx context.Context) error { return errorOf(store.Unlisted(ctx, w, 1)) },
		"Complete": func(ctx context.Context) error { return errorOf(store.Complete(ctx, w, nil)) },
		"SaveAttributes": func(ctx context.Context) error {
			return store.SaveAttributes(ctx, map[string]catalogstore.Attributes{"a": {IngredientIDs: []string{"i"}}})
		},
		"SaveDetails": func(ctx context.Context) error {
			return errorOf(store.SaveDetails(ctx, at(101), single("a", "New", "")))
		},
		"Request":   func(ctx context.Context) error { return store.Request(ctx, at(101), "b") },
		"Requested": func(ctx context.Context) error { return errorOf(store.Requested(ctx, 1)) },
		"Drop": func(ctx context.Context) error {
			return store.Drop(ctx, catalogstore.Request{ProductID: "a", At: at(1)})
		},
		"Undetailed": func(ctx context.Context) error { return errorOf(store.Undetailed(ctx, "", 1)) },
		"Get":        func(ctx context.Context) error { return errorOf(store.Get(ctx, "a")) },
		"Changes":    func(ctx context.Context) error { return errorOf(store.Changes(ctx, 0, 1)) },
	} {
		require.ErrorIs(t, call(ended), context.Canceled, name)
		same(name)
	}
	unlock, err := store.Lock(t.Context())
	require.NoError(t, err, "the canceled Lock must not keep the lock")
	require.NoError(t, unlock())
}

func smallPagesOfMany(t *testing.T, open opener) {
	store := open()
	var all []catalog.Product
	for n := range 1_000 {
		all = append(all, listed(string(rune('a'+n/100))+string(rune('a'+n/10%10))+string(rune('a'+n%10)), "Product"))
	}
	w := walked(t, store, 0, all...)
	w = walked(t, store, 100, all[:500]...)
	assert.Equal(t, 500, w.Missing)
	assert.Equal(t, time.Minute, w.CompletedAt.Sub(w.StartedAt))
	w = began(t, store, 200)
	assert.Equal(t, catalogstore.Counts{Updated: 500, Unchanged: 500}, saved(t, store, &w, 201, all...), "in one page")
}
