package catalogsync_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

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
		list, store := newMovingList(60), catalogsync.NewMemoryStore()
		list.spoil = renamed(map[string]string{"p-00005": "", "p-00007": "", "p-00031": "a\x00b"})
		var log bytes.Buffer
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10, Prefetch: prefetch, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		walk := mustSync(t, syncer)
		assert.Equal(t, 3, walk.Skipped)
		assert.False(t, walk.CompletedAt.IsZero())
		assert.Len(t, stored(t, store, catalogstore.PresencePresent), 57)
		assert.Contains(t, log.String(), `msg="skipped products of the list" first_product_id="" first_reason="dispensary: product.id is empty" page=1 skipped=2`)
		assert.Contains(t, log.String(), `first_product_id="a\x00b" first_reason="dispensary: product.id contains a NUL" page=4 skipped=1`)
		assert.Equal(t, 2, bytes.Count(log.Bytes(), []byte("\n")), "one line per page")
		state, err := store.State(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 3, state.Complete.Skipped)
	}
}

// distinct is a store that requires different ids in a page.
type distinct struct {
	catalogstore.Store
	t *testing.T
}

func (d distinct) SavePage(ctx context.Context, w catalogstore.Walk, products []catalogstore.Listed) (catalogstore.Counts, error) {
	ids := map[string]bool{}
	for _, p := range products {
		assert.False(d.t, ids[p.Product.ID], p.Product.ID)
		ids[p.Product.ID] = true
	}
	return d.Store.SavePage(ctx, w, products)
}

func TestSyncSavesLastOfRepeatedProducts(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(20), distinct{catalogsync.NewMemoryStore(), t}
	list.spoil = func(p *catalog.Product) {
		if p.ID == "p-00007" {
			p.ID, p.Name = "p-00005", "The last"
		}
	}
	var counts catalogstore.Counts
	mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10, OnProgress: func(p catalogsync.Progress) { counts = p.Counts }}))
	assert.Equal(t, catalogstore.Counts{Created: 19, Repeated: 1}, counts)
	record, err := store.Get(t.Context(), "p-00005")
	require.NoError(t, err)
	assert.Equal(t, "The last", record.Product.Name)
}

// If the list shows a product without its id, the product becomes missing. It must never be
// gone, because the platform has it, and a search must find it.
func TestSyncKeepsProductWithoutID(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(30), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
	mustSync(t, syncer)
	list.spoil = renamed(map[string]string{"p-00005": ""})
	for range 4 {
		mustSync(t, syncer)
		assert.Equal(t, []string{"p-00005"}, stored(t, store, catalogstore.PresenceMissing))
	}
	assert.Len(t, names(t, loaded(t, store), catalogsync.SearchOptions{Query: "product", Limit: 100}), 30)
	list.spoil = nil
	mustSync(t, syncer)
	assert.Len(t, stored(t, store, catalogstore.PresencePresent), 30)
}

func TestSyncRejectsListOfBadProducts(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(60), catalogsync.NewMemoryStore()
	list.spoil = func(p *catalog.Product) {
		if p.ID > "p-00046" { // 13 of 60
			p.ID = ""
		}
	}
	_, err := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10}).Sync(t.Context())
	require.ErrorIs(t, err, catalogsync.ErrTooManySkipped)
	assert.ErrorContains(t, err, ": 13 of 60")
	state, err := store.State(t.Context())
	require.NoError(t, err)
	assert.Zero(t, state.Complete.Generation)
}

func TestHandleEventSkipsBadID(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(1), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
	for _, id := range []string{"", "a\x00b"} {
		require.NoError(t, syncer.HandleEvent(t.Context(), productEvent(id)))
	}
	requested, err := store.Requested(t.Context(), 10)
	require.NoError(t, err)
	assert.Empty(t, requested)
}

// Elements that are not objects must count as products of the list.
func TestSyncSkipsElementsWithoutProduct(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"p-00000", "p-00009", "p-00025", "p-00049"} {
		list, store := newMovingList(50), catalogsync.NewMemoryStore()
		list.nulls = []string{at}
		walk := mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10}))
		assert.Equal(t, 1, walk.Skipped, at)
		assert.Len(t, stored(t, store, catalogstore.PresencePresent), 49, at)
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
	c := catalogOf(t, bodies{"products": products, "search/products": products, "ingredients": `{"ingredients":[{"name":"Zinc"}]`, "allergens": `{"allergens":[{"id":"nut-free"}]`})
	store := catalogsync.NewMemoryStore()
	var log bytes.Buffer
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: c, Store: store, Filters: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	mustSync(t, syncer)
	record, err := store.Get(t.Context(), "p1")
	require.NoError(t, err)
	assert.Equal(t, catalogstore.Attributes{AllergenIDs: []string{"nut-free"}}, record.Attributes)
	searcher := loaded(t, store)
	for want, o := range map[int]catalogsync.SearchOptions{1: {AllergenIDs: []string{"nut-free"}}, 0: {IngredientIDs: []string{""}}} {
		result, err := searcher.Search(o)
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
	c := catalogOf(t, cutSearch{bodies{"products": products, "search/products": products,
		"ingredients": `{"ingredients":[{"id":"zinc"},{"id":"water"},{"id":"oil"}]`, "allergens": `{"allergens":[{"id":"nut-free"}]`}, "water"})
	store := catalogsync.NewMemoryStore()
	var log bytes.Buffer
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: c, Store: store, Filters: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	mustSync(t, syncer)
	record, err := store.Get(t.Context(), "p1")
	require.NoError(t, err)
	assert.Equal(t, catalogstore.Attributes{IngredientIDs: []string{"zinc", "water", "oil"}, AllergenIDs: []string{"nut-free"}}, record.Attributes)
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
