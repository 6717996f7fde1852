package catalogsync_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// twoClinics returns a platform with two clinics and a client of each. Only the second clinic
// may order one of the brands.
func twoClinics(t *testing.T) (platform *dispensarytest.Server, clients []*dispensary.Client) {
	t.Helper()
	platform = dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 1, Plans: 1, Orders: 1}}))
	return platform, clientsOf(platform)
}

// clientsOf returns a client of each clinic, with a new token.
func clientsOf(platform *dispensarytest.Server) (clients []*dispensary.Client) {
	for _, clinic := range platform.Clinics.All() {
		at := slices.IndexFunc(platform.Users(), func(u model.User) bool { return u.ClinicID == clinic.ID })
		clients = append(clients, platform.Client(platform.Users()[at]))
	}
	return clients
}

// With permitted brands, a search must find the same products as the platform's own search.
func TestPermittedBrandsMatchPlatformSearch(t *testing.T) {
	t.Parallel()
	platform, clients := twoClinics(t)
	var searcher catalogsync.Searcher
	store := catalogsync.NewMemoryStore()
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: clients[0].Catalog, Store: store})
	require.NoError(t, err)
	mustSync(t, syncer)
	require.NoError(t, searcher.Load(t.Context(), store))
	var cache catalogsync.BrandCache
	hidden := 0
	for n, client := range clients {
		permitted, err := cache.Get(t.Context(), platform.Clinics.All()[n].ID, client.Catalog.Brands)
		require.NoError(t, err)
		var want []string
		for product, err := range client.Catalog.Products.Search(catalog.ProductSearchOptions{}).All(t.Context()) {
			require.NoError(t, err)
			want = append(want, product.ID)
		}
		for _, product := range platform.Products.All() {
			for _, o := range []catalogsync.SearchOptions{{Query: product.Name}, {BrandID: product.BrandID}} {
				o.Limit = 100
				found := func(r catalogsync.Result, err error) bool {
					require.NoError(t, err)
					assert.Equal(t, o.Permitted != nil, r.PermittedOnly)
					return slices.ContainsFunc(r.Hits, func(h catalogsync.Hit) bool { return h.ProductID == product.ID })
				}
				assert.True(t, found(searcher.Search(o)), "all brands by default")
				o.Permitted = permitted
				assert.Equal(t, slices.Contains(want, product.ID), found(searcher.Search(o)), product.Name)
			}
			if !slices.Contains(want, product.ID) {
				hidden++
			}
		}
	}
	assert.Positive(t, hidden)
	assert.Less(t, hidden, len(platform.Products.All()), "hidden from one clinic only")
}

func TestBrandCacheExpiresDaily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform, clients := twoClinics(t)
		var cache catalogsync.BrandCache
		get := func(clinic int) (*catalogsync.PermittedBrands, error) {
			return cache.Get(t.Context(), platform.Clinics.All()[clinic].ID, clients[clinic].Catalog.Brands)
		}
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				_, err := get(i % 2)
				assert.NoError(t, err)
			})
		}
		callers.Wait()
		assert.Len(t, platform.Journal.Requests("brands.list"), 2, "one request per clinic")

		time.Sleep(24 * time.Hour)
		first, err := get(0)
		require.NoError(t, err)
		assert.Len(t, platform.Journal.Requests("brands.list"), 2, "still valid after 24 hours")
		result, err := newSearcher(t).Search(catalogsync.SearchOptions{Query: "zinc", Permitted: first})
		require.NoError(t, err)
		assert.Equal(t, 24*time.Hour, result.PermittedAge)
		time.Sleep(time.Second)
		clients = clientsOf(platform)
		platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusForbidden, Operation: "brands.list", Times: 1})
		_, err = get(0)
		var refused *api.Error
		require.ErrorAs(t, err, &refused)
		second, err := get(0)
		require.NoError(t, err, "retry after a failure")
		assert.NotSame(t, first, second)
		assert.Len(t, platform.Journal.Requests("brands.list"), 4)
	})
}

// A caller that waits for the request of another caller must stop at the end of its context.
func TestBrandCacheHonorsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform, clients := twoClinics(t)
		platform.Fault(model.Fault{Effect: model.EffectLatency, Delay: 20 * time.Second, Operation: "brands.list"})
		var cache catalogsync.BrandCache
		first := make(chan error, 1)
		go func() {
			_, err := cache.Get(t.Context(), "clinic", clients[0].Catalog.Brands)
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := cache.Get(ctx, "clinic", clients[0].Catalog.Brands)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, <-first)
	})
}

func TestBrandCacheRejectsBadArguments(t *testing.T) {
	t.Parallel()
	_, clients := twoClinics(t)
	var cache catalogsync.BrandCache
	_, err := cache.Get(t.Context(), "", clients[0].Catalog.Brands)
	assert.EqualError(t, err, "dispensary: clinicID is empty")
	_, err = cache.Get(t.Context(), "clinic", catalog.Brands{})
	assert.EqualError(t, err, "dispensary: brands is empty")
}

func TestHandlerAppliesPermittedBrands(t *testing.T) {
	t.Parallel()
	platform, clients := twoClinics(t)
	var cache catalogsync.BrandCache
	permitted, err := cache.Get(t.Context(), platform.Clinics.All()[0].ID, clients[0].Catalog.Brands)
	require.NoError(t, err)
	handler := newSearcher(t, entry("Zinc", "one", "", "")).Handler(catalogsync.HandlerConfig{Permitted: func(r *http.Request) *catalogsync.PermittedBrands {
		if r.Header.Get("Clinic") == "" {
			return nil
		}
		return permitted
	}})
	for clinic, want := range map[string]string{"": `"hits":[{"product_id":"Zinc",`, "first": `{"hits":[],"age_seconds":0,"permitted":{"age_seconds":0}}`} {
		r, w := httptest.NewRequest(http.MethodGet, "/?q=zinc", nil), httptest.NewRecorder()
		r.Header.Set("Clinic", clinic)
		handler.ServeHTTP(w, r)
		assert.Contains(t, w.Body.String(), want)
		assert.Equal(t, clinic != "", strings.Contains(w.Body.String(), "permitted"))
	}
}
