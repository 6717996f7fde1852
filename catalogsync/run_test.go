package catalogsync_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
)

func productEvent(id string) events.ProductEvent {
	return events.ProductEvent{Event: events.Event{Type: events.TypeProductUpdated}, Object: catalog.Product{ID: id}}
}

func TestRepeatedEventsCauseOneRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogsync.SyncerConfig{})
	product := f.platform.Products.All()[3]
	_, _, err := f.platform.Products.Describe(product.ID, "<p>New</p>")
	require.NoError(t, err)
	f.platform.Journal.Reset()
	for _, id := range []string{product.ID, product.ID, "00000000-0000-4000-8000-000000000000", product.ID} {
		require.NoError(t, f.syncer.HandleEvent(t.Context(), productEvent(id)))
	}
	assert.Empty(t, f.platform.Journal.Requests(), "HandleEvent sends no request")
	require.NoError(t, f.syncer.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 2)
	records := f.records(t)
	require.Len(t, records, 1, "the unknown product is dropped")
	assert.Equal(t, "<p>New</p>", records[product.ID].Product.DescriptionHTML)
	assert.Len(t, records[product.ID].Product.Variants, len(product.VariantIDs))
	require.NoError(t, f.syncer.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 2, "no request is left")
}

// If a product is requested during its read, it must be read again.
func TestEventDuringReadCausesAnotherRead(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(1), catalogsync.NewMemoryStore()
	syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
	require.NoError(t, store.Request(t.Context(), time.Now().Add(time.Hour), "p-00000")) // by a clock that is ahead
	var once sync.Once
	list.after = func(*http.Request) error {
		once.Do(func() { assert.NoError(t, syncer.HandleEvent(t.Context(), productEvent("p-00000"))) })
		return nil
	}
	require.NoError(t, syncer.FetchRequested(t.Context()))
	assert.Equal(t, 2, list.requests())
}

func TestDetailsReadsEveryProductOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogsync.SyncerConfig{Details: true})
	f.sync(t)
	require.NoError(t, f.syncer.FetchRequested(t.Context()))
	state, err := f.store.State(t.Context())
	require.NoError(t, err)
	assert.Equal(t, len(f.platform.Products.All()), state.Detailed)
	product := f.platform.Products.All()[2]
	detailed := f.records(t)[product.ID].Product
	assert.Equal(t, product.DescriptionHTML, detailed.DescriptionHTML)
	assert.Equal(t, product.VariantIDs[0], detailed.PrimaryVariant.ID)
	assert.NotEmpty(t, detailed.PrimaryVariant.ImageURLSmall)

	_, _, err = f.platform.Products.Update(product.ID, model.ProductUpdate{Name: new("Renamed")})
	require.NoError(t, err)
	f.sync(t)
	f.platform.Journal.Reset()
	require.NoError(t, f.syncer.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 1, "the list changed one product")
	assert.Equal(t, "Renamed", f.records(t)[product.ID].Product.Name)
	f.sync(t)
	require.NoError(t, f.syncer.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 2, "a list and nothing else: the shorter list product is no change")
}

// Run must walk every hour, read requested products at once, and continue after errors.
func TestRunFollowsSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(30), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10})
		var lists, singles times // times of requests
		var broken atomic.Bool
		broken.Store(true)
		pass := func(d time.Duration) {
			time.Sleep(d) // in the time of synctest
			synctest.Wait()
		}
		began := time.Now()
		list.before = func(r *http.Request) error {
			if at := time.Since(began); strings.HasSuffix(r.URL.Path, "/products") {
				lists.add(at)
				if broken.Load() {
					return assert.AnError
				}
			} else {
				singles.add(at)
			}
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- syncer.Run(ctx) }()
		pass(35 * time.Second)
		assert.Equal(t, []time.Duration{0, 10 * time.Second, 30 * time.Second}, lists.all(), "retries after 10 s, then 20 s")
		broken.Store(false)
		pass(time.Hour)
		assert.Equal(t, []time.Duration{70 * time.Second, 70 * time.Second, 70 * time.Second}, lists.all()[3:])
		require.NoError(t, syncer.HandleEvent(ctx, productEvent("p-00001")))
		synctest.Wait()
		assert.Equal(t, []time.Duration{time.Hour + 35*time.Second}, singles.all(), "at once")
		require.NoError(t, store.Request(ctx, time.Now(), "p-00002")) // by another process
		pass(11 * time.Second)
		assert.Len(t, singles.all(), 2)
		pass(30 * time.Second)
		assert.Len(t, lists.all(), 9, "one hour after the start of the last walk")

		unlock, err := store.Lock(ctx)
		require.NoError(t, err)
		pass(2 * time.Hour)
		assert.Len(t, lists.all(), 9, "no walk while the store is locked")
		require.NoError(t, unlock())
		pass(11 * time.Second)
		assert.Len(t, lists.all(), 12)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// times are the times of requests since the start of the test.
type times struct {
	mu   sync.Mutex
	each []time.Duration
}

func (t *times) add(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.each = append(t.each, at)
}

func (t *times) all() []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.each)
}

func TestNewSyncerRejectsBadConfig(t *testing.T) {
	t.Parallel()
	_, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Prefetch: -1})
	require.ErrorIs(t, err, api.ErrArgument)
	for _, field := range []string{"Catalog", "Store", "Prefetch"} {
		assert.ErrorContains(t, err, "catalogsync.SyncerConfig."+field)
	}
}

func TestLoadFollowsStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, store := newMovingList(2_500), catalogsync.NewMemoryStore()
		syncer := list.syncer(t, store, catalogsync.SyncerConfig{})
		feed := &countedStore{Store: store}
		var searcher catalogsync.Searcher
		err := searcher.Load(t.Context(), feed)
		require.ErrorIs(t, err, catalogsync.ErrNotLoaded)
		assert.Equal(t, 503, api.ProblemOf(err).Status)

		mustSync(t, syncer)
		time.Sleep(time.Minute)
		require.NoError(t, searcher.Load(t.Context(), feed))
		assert.Equal(t, 2_500, feed.read)
		result, err := searcher.Search(catalogsync.SearchOptions{Query: "product p-02499"})
		require.NoError(t, err)
		require.Len(t, result.Hits, 1)
		assert.Equal(t, time.Minute, result.Age)

		time.Sleep(time.Hour)
		mustSync(t, syncer)
		require.NoError(t, searcher.Load(t.Context(), feed))
		assert.Equal(t, 2_500, feed.read, "no change, no read")
		result, err = searcher.Search(catalogsync.SearchOptions{Query: "product p-02499"})
		require.NoError(t, err)
		assert.Zero(t, result.Age, "the index has the time of the new walk")
		time.Sleep(time.Minute)
		require.NoError(t, store.Begin(t.Context(), catalogstore.Walk{Generation: 3, StartedAt: time.Now()}))
		require.NoError(t, searcher.Load(t.Context(), feed))
		result, err = searcher.Search(catalogsync.SearchOptions{Query: "product p-02499"})
		require.NoError(t, err)
		assert.Equal(t, time.Minute, result.Age, "the age of the complete walk")

		list.change(func(ids []string) []string { return append(ids[1:], "p-new") })
		mustSync(t, syncer)
		assert.Len(t, names(t, loaded(t, store), catalogsync.SearchOptions{Query: "product p-00000"}), 1, "a missing product is found")
		time.Sleep(time.Second)
		mustSync(t, syncer)
		require.NoError(t, searcher.Load(t.Context(), feed))
		assert.Equal(t, 2_500+2_501, feed.read, "all records, including the gone product")
		assert.Empty(t, names(t, &searcher, catalogsync.SearchOptions{Query: "product p-00000"}))
	})
}

// An incomplete index must not replace a complete one.
func TestFailedLoadKeepsIndex(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(2_500), catalogsync.NewMemoryStore()
	mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{}))
	feed := &countedStore{Store: store}
	var searcher catalogsync.Searcher
	require.NoError(t, searcher.Load(t.Context(), feed))
	_, err := store.SaveDetails(t.Context(), time.Now(), catalog.Product{ID: "p-00001", Name: "Kelp"})
	require.NoError(t, err)
	feed.read, feed.most = 0, 1_000
	require.ErrorIs(t, searcher.Load(t.Context(), feed), errBroken)
	assert.Len(t, names(t, &searcher, catalogsync.SearchOptions{Query: "product p-00001"}), 1, "the previous index remains")
}

// If a record changes during Load, the store returns it twice.
func TestLoadUsesLastStateOfProduct(t *testing.T) {
	t.Parallel()
	list, store := newMovingList(1_500), catalogsync.NewMemoryStore()
	mustSync(t, list.syncer(t, store, catalogsync.SyncerConfig{}))
	feed := &countedStore{Store: store}
	feed.between = func() {
		_, err := store.SaveDetails(t.Context(), time.Now(), catalog.Product{ID: "p-00001", Name: "Kelp"})
		require.NoError(t, err)
	}
	x := loaded(t, feed)
	assert.Equal(t, 1_501, feed.read)
	assert.Equal(t, []string{"Kelp"}, names(t, x, catalogsync.SearchOptions{Query: "kelp"}))
	assert.Empty(t, names(t, x, catalogsync.SearchOptions{Query: "product p-00001"}))
}

var errBroken = errors.New("the store is broken")

// countedStore counts the records read, and fails after most records. 0 means no limit.
type countedStore struct {
	catalogstore.Store
	read, most int
	between    func() // called once, before the second page
}

func (s *countedStore) Changes(ctx context.Context, after int64, limit int) ([]catalogstore.Record, error) {
	if s.most > 0 && s.read >= s.most {
		return nil, errBroken
	}
	if after > 0 && s.between != nil {
		s.between()
		s.between = nil
	}
	records, err := s.Store.Changes(ctx, after, limit)
	s.read += len(records)
	return records, err
}

// A process with a clock that is days ahead has completed a walk. Run does not wait for that time.
func TestRunIgnoresWalkOfWrongClock(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"right": -30 * time.Minute, "slightly ahead": time.Minute, "days ahead": 72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				list, store := newMovingList(30), catalogsync.NewMemoryStore()
				began, first := time.Now(), sync.OnceValue(time.Now)
				list.before = func(*http.Request) error { first(); return nil }
				walk := catalogstore.Walk{Generation: 1, StartedAt: began.Add(ahead), PageSize: 10}
				require.NoError(t, store.Begin(t.Context(), walk))
				walk.CompletedAt = walk.StartedAt.Add(time.Minute)
				_, err := store.Complete(t.Context(), walk, nil)
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
				defer cancel()
				require.ErrorIs(t, list.syncer(t, store, catalogsync.SyncerConfig{PageSize: 10}).Run(ctx), context.DeadlineExceeded)
				want := time.Hour + ahead
				if ahead > time.Hour {
					want = 0
				}
				assert.InDelta(t, want, first().Sub(began), float64(10*time.Second))
				state, err := store.State(t.Context())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(state.Newest.StartedAt), 61*time.Minute)
			})
		})
	}
}

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
