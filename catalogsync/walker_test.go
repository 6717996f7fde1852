package catalogsync_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/priority"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// stored returns the sorted ids of the records with a presence.
func stored(t testing.TB, store catalogstore.Store, presence catalogstore.Presence) (ids []string) {
	t.Helper()
	records, err := store.Changes(t.Context(), 0, 1_000_000)
	require.NoError(t, err)
	for _, r := range records {
		if r.Presence == presence {
			ids = append(ids, r.Product.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func mustSync(t testing.TB, s *catalogsync.Syncer) catalogstore.Walk {
	t.Helper()
	walk, err := s.Sync(t.Context())
	require.NoError(t, err)
	return walk
}

// onRequest calls act before the response to the nth list request.
func onRequest(n int, act func()) func(*http.Request) error {
	var mu sync.Mutex
	return func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/catalog/products") {
			if n--; n == 0 {
				act()
			}
		}
		return nil
	}
}

func TestWalkGoesBackWhenProductsSlip(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func([]string) []string
		extra  int
	}{
		"one removed":            {func(ids []string) []string { return ids[1:] }, 1},
		"a page removed":         {func(ids []string) []string { return ids[10:] }, 2}, // no seen product is left on the page before
		"three pages removed":    {func(ids []string) []string { return ids[30:] }, 4},
		"the end removed":        {func(ids []string) []string { return ids[:90] }, 2},
		"one added":              {func(ids []string) []string { return append([]string{"new"}, ids...) }, 0},
		"many added":             {func(ids []string) []string { return append(newMovingList(1000).ids[900:], ids...) }, 10},
		"all but one removed":    {func(ids []string) []string { return ids[99:] }, 4},
		"all replaced by others": {func(ids []string) []string { return newMovingList(120).ids[110:] }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, store := newMovingList(100), catalogsync.NewMemoryStore()
			syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
			mustSync(t, syncer)
			before := list.requests()
			list.before = onRequest(5, func() { list.change(test.change) })
			walk := mustSync(t, syncer)
			made := list.requests() - before
			assert.Equal(t, made, walk.Requests)
			assert.LessOrEqual(t, made, max(10, (len(list.all())+9)/10)+test.extra)
			missing := stored(t, store, catalogstore.PresenceMissing)
			assert.Empty(t, stored(t, store, catalogstore.PresenceGone))
			for _, id := range list.all() {
				assert.NotContains(t, missing, id, "the product stayed in the list")
			}
		})
	}
}

// Concurrent requests for pages can be served in any order, so an earlier page can come from a
// later list.
func TestWalkNoticesUnorderedPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(100), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10, Prefetch: 4})
		mustSync(t, syncer)
		before := list.requests()
		list.before = func(r *http.Request) error {
			if r.URL.Query().Get("page[number]") == "5" { // after page 6
				time.Sleep(time.Second)
				list.change(func(ids []string) []string {
					if len(ids) == 100 {
						ids = slices.Insert(ids, 3, "new")
					}
					return ids
				})
			}
			return nil
		}
		mustSync(t, syncer)
		assert.Empty(t, stored(t, store, catalogstore.PresenceMissing))
		assert.LessOrEqual(t, list.requests()-before, 11+3)
	})
}

func TestWalkAdoptsSmallerPageSize(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	list.largest = 7
	walk := mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 50, Prefetch: 3}))
	assert.Equal(t, 7, walk.PageSize, "the limit of the platform")
	assert.Equal(t, 15, walk.Requests)
	assert.Len(t, stored(t, store, catalogstore.PresencePresent), 100)
}

// A walk interrupted at any request must resume and read only one page again.
func TestInterruptedSyncResumes(t *testing.T) {
	t.Parallel()
	for cut := 1; cut <= 11; cut++ {
		list, store := newMovingList(100), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(cut, cancel)
		first, err := syncer.Sync(ctx)
		if cut == 11 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, cut-1, first.Page)
		walk := mustSync(t, syncer)
		assert.Equal(t, 10, walk.Page)
		if cut > 1 {
			assert.EqualValues(t, 1, walk.Generation, "the same walk")
			assert.Equal(t, first.StartedAt.UnixMicro(), walk.StartedAt.UnixMicro())
			assert.Equal(t, 12, list.requests())
		}
		assert.Len(t, stored(t, store, catalogstore.PresencePresent), 100)
	}
}

// Between two syncs, so many products may leave that unseen products move before the last
// stored page.
func TestSyncResumesAfterListChanged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ leave, come int }{{3, 0}, {3, 3}, {25, 0}, {25, 25}, {0, 30}, {60, 60}, {75, 0}} {
		list, store := newMovingList(100), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(8, cancel)
		_, err := syncer.Sync(ctx)
		require.ErrorIs(t, err, context.Canceled)
		list.change(func(ids []string) []string {
			return append(ids[test.leave:], newMovingList(1000).ids[900:900+test.come]...)
		})
		mustSync(t, syncer)
		present := stored(t, store, catalogstore.PresencePresent)
		for _, id := range list.all() {
			assert.Contains(t, present, id, "%+v", test)
		}
	}
}

func TestSyncReplacesWalkAfterOneDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(100), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(5, cancel)
		_, err := syncer.Sync(ctx)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(24 * time.Hour)
		walk := mustSync(t, syncer)
		assert.EqualValues(t, 2, walk.Generation)
		assert.Equal(t, 10, walk.Requests)
	})
}

// A product hidden from the list, even from an empty list, must never be gone if the platform
// has its id.
func TestHiddenProductsAreNeverGone(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	mustSync(t, syncer)
	whole := list.all()
	list.hideFromList(whole)
	assert.Equal(t, 100, mustSync(t, syncer).Missing)
	for range 3 {
		mustSync(t, syncer)
		assert.Equal(t, whole, stored(t, store, catalogstore.PresenceMissing))
	}
	list.hideFromList(nil)
	mustSync(t, syncer)
	assert.Equal(t, whole, stored(t, store, catalogstore.PresencePresent))
}

// A product that two walks did not see is gone if the platform does not have its id. For a
// short list, a walk checks up to ten products.
func TestSyncConfirmsGoneProductsByID(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	mustSync(t, syncer)
	whole := list.all()
	hidden := whole[:12]
	list.change(func(ids []string) []string { return ids[15:] })
	assert.Equal(t, 15, mustSync(t, syncer).Missing)
	list.before = func(r *http.Request) error { // the list hides existing products
		single := strings.Contains(r.URL.Path, "/products/")
		list.change(func([]string) []string {
			if single {
				return append(slices.Clone(hidden), whole[15:]...)
			}
			return whole[15:]
		})
		return nil
	}
	var gone int
	for range 3 {
		walk := mustSync(t, syncer)
		assert.LessOrEqual(t, walk.Requests, 9+10)
		gone += walk.Gone
	}
	assert.Equal(t, 3, gone)
	assert.Equal(t, whole[12:15], stored(t, store, catalogstore.PresenceGone))
	assert.Equal(t, hidden, stored(t, store, catalogstore.PresenceMissing), "the platform has their ids")
}

func TestConcurrentSyncIsRejected(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	other := list.syncer(t, store, catalogsync.SyncerConfig{})
	require.NoError(t, store.Request(t.Context(), time.Now(), "p-00001"))
	list.before = onRequest(5, func() {
		_, err := other.Sync(t.Context())
		assert.ErrorIs(t, err, catalogstore.ErrSyncing)
		assert.ErrorIs(t, other.FetchRequested(t.Context()), catalogstore.ErrSyncing)
	})
	mustSync(t, syncer)
	mustSync(t, other)
	require.NoError(t, other.FetchRequested(t.Context()))
}

// limiter counts calls and rejects them after most.
type limiter struct {
	passed, most int
	priority     api.Priority // of the last request
}

func (l *limiter) Wait(ctx context.Context) error {
	l.priority = priority.Of(ctx)
	if l.passed == l.most {
		return errors.New("the limit is reached")
	}
	l.passed++
	return nil
}

func TestLimiterCoversEveryRequest(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(100), catalogsync.NewMemoryStore()
	budget := &limiter{most: 6}
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10, Limiter: budget})
	_, err := syncer.Sync(t.Context())
	require.EqualError(t, err, "the limit is reached")
	assert.Equal(t, 6, list.requests())
	budget.most = 12
	mustSync(t, syncer)
	assert.Equal(t, 11, list.requests())
	assert.Equal(t, api.PriorityCatalog, budget.priority)
	require.NoError(t, store.Request(t.Context(), time.Now(), "p-00001", "p-00002"))
	require.EqualError(t, syncer.FetchRequested(t.Context()), "the limit is reached")
	assert.Equal(t, 12, list.requests())
}

// With eight prefetched pages, a walk must take at most a sixth of the time.
func TestPrefetchShortensWalk(t *testing.T) {
	t.Parallel()
	took := func(prefetch int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			list, store := newMovingList(4_000), catalogsync.NewMemoryStore()
			list.before = func(*http.Request) error { time.Sleep(20 * time.Millisecond); return nil }
			began := time.Now()
			walk := mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{Prefetch: prefetch}))
			took = time.Since(began)
			assert.Equal(t, 40, walk.Requests)
			assert.Len(t, stored(t, store, catalogstore.PresencePresent), 4_000)
		})
		return took
	}
	sequential, ahead := took(1), took(8)
	assert.Equal(t, 40*20*time.Millisecond, sequential)
	assert.LessOrEqual(t, ahead, sequential/6)
}

// A product that stays in the list must never be gone. If products are only added or only
// removed, a walk with spare requests must see all of them.
func TestWalkSurvivesChangingList(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for seed := range testsize.Of(60, 3000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { walkChangingList(t, uint64(seed)) })
		})
	}
}

func walkChangingList(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	list, store := newMovingList(30+random.IntN(300)), catalogsync.NewMemoryStore()
	size := 2 + random.IntN(20)
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: size, Prefetch: 1 + random.IntN(8)})
	mustSync(t, syncer)
	mode, often, there, added := seed%3, 5+random.IntN(40), list.all(), 0
	var mu sync.Mutex
	changes := 0
	disturb := func(*http.Request) error {
		mu.Lock()
		pause, change := time.Duration(1+random.IntN(50))*time.Millisecond, random.IntN(often) == 0
		mu.Unlock()
		time.Sleep(pause)
		mu.Lock()
		defer mu.Unlock()
		if !change || mode < 2 && changes == 2 { // after more changes, few walks have spare requests
			return nil
		}
		changes++
		list.change(func(ids []string) []string {
			at := random.IntN(len(ids))
			switch {
			case mode == 0 && len(ids) > 5: // remove only
				there = slices.DeleteFunc(there, func(id string) bool { return id == ids[at] })
				return slices.Delete(ids, at, at+1)
			case mode == 1: // add only
				added++
				return slices.Insert(ids, at, fmt.Sprintf("new-%d", added))
			case mode == 2: // add, remove and move
				id := ids[at]
				ids = slices.Delete(ids, at, at+1)
				if random.IntN(2) == 0 {
					added++
					there = slices.DeleteFunc(there, func(other string) bool { return other == id })
					id = fmt.Sprintf("new-%d", added)
				}
				return slices.Insert(ids, random.IntN(len(ids)+1), id)
			}
			return ids
		})
		return nil
	}
	list.before, list.after = disturb, disturb
	for range 6 {
		changes = 0
		walk := mustSync(t, syncer)
		pages := (walk.Total + size - 1) / size
		spare := walk.Requests < pages+max(10, pages/10)
		gone, missing := stored(t, store, catalogstore.PresenceGone), stored(t, store, catalogstore.PresenceMissing)
		for _, id := range there {
			require.NotContains(t, gone, id)
			if mode < 2 && spare {
				require.NotContains(t, missing, id)
			}
		}
	}
	list.before, list.after = nil, nil
	mustSync(t, syncer)
	want := list.all()
	slices.Sort(want)
	require.Equal(t, want, stored(t, store, catalogstore.PresencePresent))
}
