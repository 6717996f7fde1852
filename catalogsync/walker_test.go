package catalogsync_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// stored returns the sorted ids of the records with a presence.
func stored(c *catalogsync.Catalog, presence catalogsync.Presence) (ids []string) {
	for r := range c.Changes(0) {
		if r.Presence == presence {
			ids = append(ids, r.Product.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// request requests single products.
func request(t testing.TB, c *catalogsync.Catalog, ids ...string) {
	t.Helper()
	for _, id := range ids {
		require.NoError(t, c.HandleEvent(t.Context(), productEvent(id)))
	}
}

func mustSync(t testing.TB, c *catalogsync.Catalog) catalogsync.Walk {
	t.Helper()
	walk, err := c.Sync(t.Context())
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
			list := newMovingList(100)
			c := list.copy(t, catalogsync.Config{PageSize: 10})
			mustSync(t, c)
			before := list.requests()
			list.before = onRequest(5, func() { list.change(test.change) })
			walk := mustSync(t, c)
			made := list.requests() - before
			assert.Equal(t, made, walk.Requests)
			assert.LessOrEqual(t, made, max(10, (len(list.all())+9)/10)+test.extra)
			missing := stored(c, catalogsync.PresenceMissing)
			assert.Empty(t, stored(c, catalogsync.PresenceGone))
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
		list := newMovingList(100)
		c := list.copy(t, catalogsync.Config{PageSize: 10, Prefetch: 4})
		mustSync(t, c)
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
		mustSync(t, c)
		assert.Empty(t, stored(c, catalogsync.PresenceMissing))
		assert.LessOrEqual(t, list.requests()-before, 11+3)
	})
}

func TestWalkAdoptsSmallerPageSize(t *testing.T) {
	t.Parallel()
	list := newMovingList(100)
	list.largest = 7
	c := list.copy(t, catalogsync.Config{PageSize: 50, Prefetch: 3})
	walk := mustSync(t, c)
	assert.Equal(t, 7, walk.PageSize, "the limit of the platform")
	assert.Equal(t, 15, walk.Requests)
	assert.Len(t, stored(c, catalogsync.PresencePresent), 100)
}

// A walk interrupted at any request must resume and read only one page again. The list ends at the
// tenth request.
func TestInterruptedSyncResumes(t *testing.T) {
	t.Parallel()
	for cut := 1; cut <= 10; cut++ {
		list := newMovingList(100)
		c := list.copy(t, catalogsync.Config{PageSize: 10})
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(cut, cancel)
		first, err := c.Sync(ctx)
		if cut == 10 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, cut, first.Page)
		walk := mustSync(t, c)
		assert.Equal(t, 10, walk.Page)
		assert.EqualValues(t, 1, walk.Generation, "the same walk")
		assert.Equal(t, first.StartedAt, walk.StartedAt)
		assert.Equal(t, 11, list.requests())
		assert.Len(t, stored(c, catalogsync.PresencePresent), 100)
	}
}

// Between two syncs, so many products may leave that unseen products move before the last
// stored page.
func TestSyncResumesAfterListChanged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ leave, come int }{{3, 0}, {3, 3}, {25, 0}, {25, 25}, {0, 30}, {60, 60}, {75, 0}} {
		list := newMovingList(100)
		c := list.copy(t, catalogsync.Config{PageSize: 10})
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(8, cancel)
		_, err := c.Sync(ctx)
		require.ErrorIs(t, err, context.Canceled)
		list.change(func(ids []string) []string {
			return append(ids[test.leave:], newMovingList(1000).ids[900:900+test.come]...)
		})
		mustSync(t, c)
		present := stored(c, catalogsync.PresencePresent)
		for _, id := range list.all() {
			assert.Contains(t, present, id, "%+v", test)
		}
	}
}

func TestSyncReplacesWalkAfterOneDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := newMovingList(100)
		c := list.copy(t, catalogsync.Config{PageSize: 10})
		ctx, cancel := context.WithCancel(t.Context())
		list.before = onRequest(5, cancel)
		_, err := c.Sync(ctx)
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(24 * time.Hour)
		walk := mustSync(t, c)
		assert.EqualValues(t, 2, walk.Generation)
		assert.Equal(t, 10, walk.Requests)
	})
}

// A product hidden from the list, even from an empty list, must never be gone if the platform
// has its id.
func TestHiddenProductsAreNeverGone(t *testing.T) {
	t.Parallel()
	list := newMovingList(100)
	c := list.copy(t, catalogsync.Config{PageSize: 10})
	mustSync(t, c)
	whole := list.all()
	list.hideFromList(whole)
	assert.Equal(t, 100, mustSync(t, c).Missing)
	for range 3 {
		mustSync(t, c)
		assert.Equal(t, whole, stored(c, catalogsync.PresenceMissing))
	}
	list.hideFromList(nil)
	mustSync(t, c)
	assert.Equal(t, whole, stored(c, catalogsync.PresencePresent))
}

// A product that two walks did not see is gone if the platform does not have its id. For a
// short list, a walk checks up to ten products.
func TestSyncConfirmsGoneProductsByID(t *testing.T) {
	t.Parallel()
	list := newMovingList(100)
	c := list.copy(t, catalogsync.Config{PageSize: 10})
	mustSync(t, c)
	whole := list.all()
	hidden := whole[:12]
	list.change(func(ids []string) []string { return ids[15:] })
	assert.Equal(t, 15, mustSync(t, c).Missing)
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
		walk := mustSync(t, c)
		assert.LessOrEqual(t, walk.Requests, 9+10)
		gone += walk.Gone
	}
	assert.Equal(t, 3, gone)
	assert.Equal(t, whole[12:15], stored(c, catalogsync.PresenceGone))
	assert.Equal(t, hidden, stored(c, catalogsync.PresenceMissing), "the platform has their ids")
}

func TestConcurrentSyncIsRejected(t *testing.T) {
	t.Parallel()
	list := newMovingList(100)
	c := list.copy(t, catalogsync.Config{PageSize: 10})
	request(t, c, "p-00001")
	list.before = onRequest(5, func() {
		_, err := c.Sync(t.Context())
		assert.ErrorIs(t, err, catalogsync.ErrSyncing)
		assert.ErrorIs(t, c.FetchRequested(t.Context()), catalogsync.ErrSyncing)
	})
	mustSync(t, c)
	require.NoError(t, c.FetchRequested(t.Context()))
}

// limiter counts calls and rejects them after most.
type limiter struct {
	passed, most int
	priority     api.Priority // of the last request
}

func (l *limiter) Wait(ctx context.Context) error {
	l.priority = apikit.PriorityOf(ctx)
	if l.passed == l.most {
		return errors.New("the limit is reached")
	}
	l.passed++
	return nil
}

func TestLimiterCoversEveryRequest(t *testing.T) {
	t.Parallel()
	list := newMovingList(100)
	budget := &limiter{most: 6}
	c := list.copy(t, catalogsync.Config{PageSize: 10, Limiter: budget})
	_, err := c.Sync(t.Context())
	require.EqualError(t, err, "the limit is reached")
	assert.Equal(t, 6, list.requests())
	budget.most = 12
	mustSync(t, c)
	assert.Equal(t, 11, list.requests())
	assert.Equal(t, api.PriorityCatalog, budget.priority)
	request(t, c, "p-00001", "p-00002")
	require.EqualError(t, c.FetchRequested(t.Context()), "the limit is reached")
	assert.Equal(t, 12, list.requests())
}

// With eight prefetched pages, a walk must take at most a sixth of the time.
func TestPrefetchShortensWalk(t *testing.T) {
	t.Parallel()
	took := func(prefetch int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			list := newMovingList(4_000)
			list.before = func(*http.Request) error { time.Sleep(20 * time.Millisecond); return nil }
			began := time.Now()
			c := list.copy(t, catalogsync.Config{Prefetch: prefetch})
			walk := mustSync(t, c)
			took = time.Since(began)
			assert.Equal(t, 40, walk.Requests)
			assert.Len(t, stored(c, catalogsync.PresencePresent), 4_000)
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
	list := newMovingList(30 + random.IntN(300))
	size := 2 + random.IntN(20)
	c := list.copy(t, catalogsync.Config{PageSize: size, Prefetch: 1 + random.IntN(8)})
	mustSync(t, c)
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
		walk := mustSync(t, c)
		pages := (walk.Total + size - 1) / size
		spare := walk.Requests < pages+max(10, pages/10)
		gone, missing := stored(c, catalogsync.PresenceGone), stored(c, catalogsync.PresenceMissing)
		for _, id := range there {
			require.NotContains(t, gone, id)
			if mode < 2 && spare {
				require.NotContains(t, missing, id)
			}
		}
	}
	list.before, list.after = nil, nil
	mustSync(t, c)
	want := list.all()
	slices.Sort(want)
	require.Equal(t, want, stored(c, catalogsync.PresencePresent))
}

// If a list ends before its own count, the walk must not complete. The next Sync must continue
// the walk when the list is whole.
func TestSyncReportsIncompleteList(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{1, 10, 20, 45, 49} {
		for _, prefetch := range []int{1, 4} {
			list := newMovingList(50)
			list.cut = cut
			c := list.copy(t, catalogsync.Config{PageSize: 10, Prefetch: prefetch})
			for range 3 {
				walk, err := c.Sync(t.Context())
				require.ErrorAs(t, err, new(*api.IncompleteListError))
				assert.EqualError(t, err, fmt.Sprintf("catalogsync: incomplete list: it ended after %d of 50 records", cut))
				assert.True(t, walk.CompletedAt.IsZero())
			}
			state := c.State()
			assert.Zero(t, state.Complete.Generation)
			assert.Equal(t, cut, state.Records[catalogsync.PresencePresent], "the read products are stored")
			list.cut = 0
			assert.Equal(t, 50, mustSync(t, c).Total)
			assert.Len(t, stored(c, catalogsync.PresencePresent), 50)
		}
	}
}

// renamed returns a function that changes the ids of products.
func renamed(ids map[string]string) func(*catalog.Product) {
	return func(p *catalog.Product) {
		if id, is := ids[p.ID]; is {
			p.ID = id
		}
	}
}

func TestSyncSkipsBadProducts(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{1, 6} {
		list := newMovingList(60)
		list.spoil = renamed(map[string]string{"p-00005": "", "p-00007": "", "p-00031": "a\x00b"})
		var log bytes.Buffer
		c := list.copy(t, catalogsync.Config{PageSize: 10, Prefetch: prefetch, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		walk := mustSync(t, c)
		assert.Equal(t, 3, walk.Skipped)
		assert.False(t, walk.CompletedAt.IsZero())
		assert.Len(t, stored(c, catalogsync.PresencePresent), 57)
		assert.Contains(t, log.String(), `msg="skipped products of the list" first_product_id="" first_reason="dispensary: product.id is empty" page=1 skipped=2`)
		assert.Contains(t, log.String(), `first_product_id="a\x00b" first_reason="dispensary: product.id contains a NUL" page=4 skipped=1`)
		assert.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")), "one line per page")
		state := c.State()
		assert.Equal(t, 3, state.Complete.Skipped)
	}
}

func TestSyncSavesLastOfRepeatedProducts(t *testing.T) {
	t.Parallel()
	list := newMovingList(20)
	list.spoil = func(p *catalog.Product) {
		if p.ID == "p-00007" {
			p.ID, p.Name = "p-00005", "The last"
		}
	}
	var counts catalogsync.Counts
	c := list.copy(t, catalogsync.Config{PageSize: 10, OnProgress: func(p catalogsync.Progress) { counts = p.Counts }})
	mustSync(t, c)
	assert.Equal(t, catalogsync.Counts{Created: 19, Repeated: 1}, counts)
	record, _ := c.Get("p-00005")
	assert.Equal(t, "The last", record.Product.Name)
}

// If the list shows a product without its id, the product becomes missing. It must never be
// gone, because the platform has it, and a search must find it.
func TestSyncKeepsProductWithoutID(t *testing.T) {
	t.Parallel()
	list := newMovingList(30)
	c := list.copy(t, catalogsync.Config{PageSize: 10})
	mustSync(t, c)
	list.spoil = renamed(map[string]string{"p-00005": ""})
	for range 4 {
		mustSync(t, c)
		assert.Equal(t, []string{"p-00005"}, stored(c, catalogsync.PresenceMissing))
	}
	assert.Len(t, names(t, c, catalogsync.SearchOptions{Query: "product", Limit: 100}), 30)
	list.spoil = nil
	mustSync(t, c)
	assert.Len(t, stored(c, catalogsync.PresencePresent), 30)
}

func TestSyncRejectsListOfBadProducts(t *testing.T) {
	t.Parallel()
	list := newMovingList(60)
	list.spoil = func(p *catalog.Product) {
		if p.ID > "p-00046" { // 13 of 60
			p.ID = ""
		}
	}
	c := list.copy(t, catalogsync.Config{PageSize: 10})
	_, err := c.Sync(t.Context())
	require.ErrorIs(t, err, catalogsync.ErrTooManySkipped)
	assert.ErrorContains(t, err, ": 13 of 60")
	state := c.State()
	assert.Zero(t, state.Complete.Generation)
}

func TestHandleEventSkipsBadID(t *testing.T) {
	t.Parallel()
	list := newMovingList(1)
	c := list.copy(t, catalogsync.Config{})
	for _, id := range []string{"", "a\x00b", "\xff"} {
		require.NoError(t, c.HandleEvent(t.Context(), productEvent(id)))
	}
	assert.Zero(t, c.State().Requested)
}

// Elements that are not objects must count as products of the list.
func TestSyncSkipsElementsWithoutProduct(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"p-00000", "p-00009", "p-00025", "p-00049"} {
		list := newMovingList(50)
		list.nulls = []string{at}
		c := list.copy(t, catalogsync.Config{PageSize: 10})
		walk := mustSync(t, c)
		assert.Equal(t, 1, walk.Skipped, at)
		assert.Len(t, stored(c, catalogsync.PresencePresent), 49, at)
	}
}

// bodies is a platform with response bodies, by the last part of the path.
type bodies map[string]string

func (b bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	body := b[path.Base(r.URL.Path)]
	if strings.Contains(r.URL.Path, "/search/") {
		body = b["search/"+path.Base(r.URL.Path)]
	}
	body += `,"meta":{"current_page":1,"next_page":null,"total_pages":1,"total_count":1}}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Request-Id": {"r"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// A search for an attribute without an id would find every product.
func TestSyncSkipsAttributesWithoutID(t *testing.T) {
	t.Parallel()
	products := `{"products":[{"id":"p1","name":"Zinc"}]`
	service := catalogOf(t, bodies{"products": products, "search/products": products, "ingredients": `{"ingredients":[{"name":"Zinc"}]`, "allergens": `{"allergens":[{"id":"nut-free"}]`})
	var log bytes.Buffer
	c, err := catalogsync.New(catalogsync.Config{Catalog: service, Filters: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	mustSync(t, c)
	record, _ := c.Get("p1")
	assert.Equal(t, catalogsync.Attributes{AllergenIDs: []string{"nut-free"}}, record.Attributes)
	for want, o := range map[int]catalogsync.SearchOptions{1: {AllergenIDs: []string{"nut-free"}}, 0: {IngredientIDs: []string{""}}} {
		result, err := c.Search(o)
		require.NoError(t, err)
		assert.Len(t, result.Hits, want)
	}
	assert.Contains(t, log.String(), `msg="skipped a product attribute" reason="no id"`)
}

// cutSearch counts more products with an ingredient than its search returns.
type cutSearch struct {
	bodies
	ingredient string
}

func (c cutSearch) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.bodies.RoundTrip(r)
	if err == nil && strings.Contains(r.URL.Path, "/search/") && r.URL.Query().Get("ingredient_ids[]") == c.ingredient {
		body, _ := io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte(`"total_count":1`), []byte(`"total_count":20000`), 1)))
	}
	return response, err
}

func TestSyncKeepsAttributesOfCutSearch(t *testing.T) {
	t.Parallel()
	products := `{"products":[{"id":"p1","name":"Zinc"}]`
	service := catalogOf(t, cutSearch{bodies{"products": products, "search/products": products,
		"ingredients": `{"ingredients":[{"id":"zinc"},{"id":"water"},{"id":"oil"}]`, "allergens": `{"allergens":[{"id":"nut-free"}]`}, "water"})
	var log bytes.Buffer
	c, err := catalogsync.New(catalogsync.Config{Catalog: service, Filters: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	mustSync(t, c)
	record, _ := c.Get("p1")
	assert.Equal(t, catalogsync.Attributes{IngredientIDs: []string{"zinc", "water", "oil"}, AllergenIDs: []string{"nut-free"}}, record.Attributes)
	assert.Contains(t, log.String(), `msg="a product attribute has more products than its search returns" id=water returned=1 total=20000`)
}

func TestBrandWithoutIDPermitsNoProduct(t *testing.T) {
	t.Parallel()
	var cache catalogsync.BrandCache
	permitted, err := cache.Get(t.Context(), "clinic", catalogOf(t, bodies{"brands": `{"brands":[{"name":"Kelp"}]`}).Brands)
	require.NoError(t, err)
	zinc := entry("Zinc", "one", "", "")
	zinc.Product.Brand.ID = ""
	result, err := newSearcher(t, zinc).Search(catalogsync.SearchOptions{Query: "zinc", Permitted: permitted})
	require.NoError(t, err)
	assert.Empty(t, result.Hits)
}

// fixture is a platform and a copy of its catalog.
type fixture struct {
	platform *dispensarytest.Server
	c        *catalogsync.Catalog
}

func newFixture(t *testing.T, config catalogsync.Config) *fixture {
	t.Helper()
	f := &fixture{platform: dispensarytest.New(t, dispensarytest.WithInMemory())}
	config.Catalog = f.platform.Client(model.User{}).Catalog
	var err error
	f.c, err = catalogsync.New(config)
	require.NoError(t, err)
	return f
}

func (f *fixture) records() map[string]catalogsync.Record {
	byID := map[string]catalogsync.Record{}
	for r := range f.c.Changes(0) {
		byID[r.Product.ID] = r
	}
	return byID
}

func TestSyncStoresWholeCatalog(t *testing.T) {
	t.Parallel()
	var seen []catalogsync.Progress
	f := newFixture(t, catalogsync.Config{PageSize: 7, Prefetch: 3, Filters: true, OnProgress: func(p catalogsync.Progress) { seen = append(seen, p) }})
	walk := mustSync(t, f.c)
	products := f.platform.Products.All()
	pages := (len(products) + 6) / 7
	assert.EqualValues(t, 1, walk.Generation)
	assert.Equal(t, pages, walk.Page)
	assert.Equal(t, pages, walk.Requests)
	assert.Equal(t, len(products), walk.Total)
	assert.False(t, walk.CompletedAt.IsZero())
	require.Len(t, seen, pages)
	last := seen[pages-1]
	assert.Equal(t, catalogsync.Counts{Created: len(products)}, last.Counts)
	assert.Equal(t, pages, last.Pages)
	records := f.records()
	assert.Len(t, records, len(products))
	attributed := 0
	for _, p := range products {
		r := records[p.ID]
		assert.Equal(t, p.Name, r.Product.Name)
		assert.Equal(t, catalogsync.PresencePresent, r.Presence)
		if len(r.IngredientIDs) > 0 { // a search finds only permitted products
			assert.ElementsMatch(t, p.IngredientIDs, r.IngredientIDs, p.Name)
			assert.ElementsMatch(t, p.AllergenIDs, r.AllergenIDs, p.Name)
			attributed++
		}
	}
	assert.Greater(t, attributed, len(products)/2)

	revision := last.Walk
	walk = mustSync(t, f.c)
	assert.EqualValues(t, 2, walk.Generation)
	assert.NotEqual(t, revision, walk)
	assert.Equal(t, records, f.recordsRead(records), "only the read times changed")
}

func TestSyncReportsFailedAttributes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogsync.Config{Filters: true})
	for _, operation := range []string{"products.search", "ingredients.list", "allergens.list"} {
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusForbidden, Operation: operation, Times: 1})
		_, err := f.c.Sync(t.Context())
		require.ErrorAs(t, err, new(*api.Error), operation)
	}
}

// recordsRead returns the records with the read times of others.
func (f *fixture) recordsRead(others map[string]catalogsync.Record) map[string]catalogsync.Record {
	records := f.records()
	for id, r := range records {
		r.ReadAt, r.DetailsAt = others[id].ReadAt, others[id].DetailsAt
		records[id] = r
	}
	return records
}
