package catalogsync_test

import (
	"bytes"
	"context"
	"log/slog"
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
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
)

func productEvent(id string) events.ProductEvent {
	return events.ProductEvent{Event: events.Event{Type: events.TypeProductUpdated}, Object: catalog.Product{ID: id}}
}

func TestRepeatedEventsCauseOneRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogsync.Config{})
	product := f.platform.Products.All()[3]
	_, _, err := f.platform.Products.Describe(product.ID, "<p>New</p>")
	require.NoError(t, err)
	f.platform.Journal.Reset()
	for _, id := range []string{product.ID, product.ID, "00000000-0000-4000-8000-000000000000", product.ID} {
		require.NoError(t, f.c.HandleEvent(t.Context(), productEvent(id)))
	}
	assert.Empty(t, f.platform.Journal.Requests(), "HandleEvent sends no request")
	require.NoError(t, f.c.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 2)
	records := f.records()
	require.Len(t, records, 1, "the unknown product is dropped")
	assert.Equal(t, "<p>New</p>", records[product.ID].Product.DescriptionHTML)
	assert.Len(t, records[product.ID].Product.Variants, len(product.VariantIDs))
	require.NoError(t, f.c.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 2, "no request is left")
}

// If a product is requested during its read, it must be read again.
func TestEventDuringReadCausesAnotherRead(t *testing.T) {
	t.Parallel()
	list := newMovingList(1)
	c := list.copy(t, catalogsync.Config{})
	request(t, c, "p-00000")
	var once sync.Once
	list.after = func(*http.Request) error {
		once.Do(func() { assert.NoError(t, c.HandleEvent(t.Context(), productEvent("p-00000"))) })
		return nil
	}
	require.NoError(t, c.FetchRequested(t.Context()))
	assert.Equal(t, 2, list.requests())
}

func TestDetailsReadsEveryProductOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogsync.Config{Details: true})
	mustSync(t, f.c)
	require.NoError(t, f.c.FetchRequested(t.Context()))
	state := f.c.State()
	assert.Equal(t, len(f.platform.Products.All()), state.Detailed)
	product := f.platform.Products.All()[2]
	detailed := f.records()[product.ID].Product
	assert.Equal(t, product.DescriptionHTML, detailed.DescriptionHTML)
	assert.Equal(t, product.VariantIDs[0], detailed.PrimaryVariant.ID)
	assert.NotEmpty(t, detailed.PrimaryVariant.ImageURLSmall)

	_, _, err := f.platform.Products.Update(product.ID, model.ProductUpdate{Name: new("Renamed")})
	require.NoError(t, err)
	mustSync(t, f.c)
	f.platform.Journal.Reset()
	require.NoError(t, f.c.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 1, "the list changed one product")
	assert.Equal(t, "Renamed", f.records()[product.ID].Product.Name)
	mustSync(t, f.c)
	require.NoError(t, f.c.FetchRequested(t.Context()))
	assert.Len(t, f.platform.Journal.Requests(), 2, "a list and nothing else: the shorter list product is no change")
}

// Run must walk every hour, read requested products at once, and continue after errors.
func TestRunFollowsSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := newMovingList(30)
		c := list.copy(t, catalogsync.Config{PageSize: 10})
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
		go func() { ended <- c.Run(ctx) }()
		pass(35 * time.Second)
		assert.Equal(t, []time.Duration{0, 10 * time.Second, 30 * time.Second}, lists.all(), "retries after 10 s, then 20 s")
		broken.Store(false)
		pass(time.Hour)
		assert.Equal(t, []time.Duration{70 * time.Second, 70 * time.Second, 70 * time.Second}, lists.all()[3:])
		require.NoError(t, c.HandleEvent(ctx, productEvent("p-00001")))
		synctest.Wait()
		assert.Equal(t, []time.Duration{time.Hour + 35*time.Second}, singles.all(), "at once")
		request(t, c, "p-00002") // by another process
		pass(11 * time.Second)
		assert.Len(t, singles.all(), 2)
		pass(30 * time.Second)
		assert.Len(t, lists.all(), 9, "one hour after the start of the last walk")

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

func TestRunWaitsForUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := newMovingList(30)
		var log bytes.Buffer
		c := list.copy(t, catalogsync.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var connected atomic.Bool
		list.before = func(*http.Request) error {
			if connected.Load() {
				return nil
			}
			return api.ErrReauthorize
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.False(t, c.State().Searchable)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), "must log the wait once: %s", &log)
		assert.Contains(t, log.String(), `level=INFO msg="could not read the catalog before a user connects"`)
		connected.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.True(t, c.State().Searchable)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestNewRejectsBadConfig(t *testing.T) {
	t.Parallel()
	_, err := catalogsync.New(catalogsync.Config{Prefetch: -1})
	require.ErrorIs(t, err, api.ErrArgument)
	for _, field := range []string{"Catalog", "Prefetch"} {
		assert.ErrorContains(t, err, "catalogsync.Config."+field)
	}
}

// reject makes requests for single products fail if their id begins with one of ids.
func (m *movingList) reject(ids ...string) {
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
		list := newMovingList(4)
		list.reject("p-00001")
		c := list.copy(t, catalogsync.Config{Details: true})
		_, err := c.Sync(t.Context())
		require.NoError(t, err)
		request(t, c, "p-00001", "p-00002", "p-00003")
		require.ErrorIs(t, c.FetchRequested(t.Context()), assert.AnError)

		state := c.State()
		assert.Equal(t, 1, state.Requested, "the request stays")
		assert.Equal(t, 3, state.Detailed, "the other products are read, also the unrequested one")

		require.ErrorIs(t, c.FetchRequested(t.Context()), assert.AnError, "FetchRequested retries at once")
		list.reject()
		require.NoError(t, c.FetchRequested(t.Context()))
		assert.Zero(t, c.State().Requested)
	})
}

// If no product can be read, FetchRequested must stop early.
func TestFetchRequestedStopsAfterThreeFailures(t *testing.T) {
	t.Parallel()
	list := newMovingList(10)
	failures := 0
	list.before = func(*http.Request) error { failures++; return assert.AnError }
	c := list.copy(t, catalogsync.Config{})
	request(t, c, list.all()...)
	require.ErrorIs(t, c.FetchRequested(t.Context()), assert.AnError)
	assert.Equal(t, 3, failures)
	assert.Equal(t, 10, c.State().Requested)
}

// Earlier failures must not delay the product of a new event. The next process must read the product.
func TestRunPostponesUnreadableProduct(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shared := newMovingList(4), &row{}
		list.reject("p-00001")
		made := func(s catalogsync.Snapshots) *catalogsync.Catalog {
			return list.copy(t, catalogsync.Config{Snapshots: s})
		}
		p := start(t, shared, made)
		require.NoError(t, p.HandleEvent(t.Context(), productEvent("p-00001")))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		assert.Less(t, list.requests(), 2+20, "the wait between retries grows")
		require.NoError(t, p.HandleEvent(t.Context(), productEvent("p-00002")))
		synctest.Wait()
		record, _ := p.Get("p-00002")
		assert.False(t, record.DetailsAt.IsZero())
		p.kill()
		list.reject()
		p = start(t, shared, made)
		synctest.Wait()
		record, _ = p.Get("p-00001")
		assert.False(t, record.DetailsAt.IsZero())
		p.stop()
	})
}

// A program starts Run before its first user connects.
func TestRunReadsSoonAfterUserConnects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := newMovingList(4)
		began := time.Now()
		list.before = func(*http.Request) error {
			if time.Since(began) < 8*time.Hour {
				return api.ErrReauthorize
			}
			return nil
		}
		p := start(t, &row{}, func(s catalogsync.Snapshots) *catalogsync.Catalog {
			return list.copy(t, catalogsync.Config{Snapshots: s})
		})
		time.Sleep(8 * time.Hour)
		assert.Less(t, list.requests(), 8*12+10, "the wait between retries grows")
		time.Sleep(5*time.Minute + 10*time.Second)
		assert.Equal(t, 4, p.State().Records[catalogsync.PresencePresent])
		p.stop()
	})
}

// An unreadable product must stay missing, and the walk must still complete.
func TestSyncKeepsUnreadableProductMissing(t *testing.T) {
	t.Parallel()
	list := newMovingList(30)
	c := list.copy(t, catalogsync.Config{PageSize: 10})
	_, err := c.Sync(t.Context())
	require.NoError(t, err)
	list.change(func(ids []string) []string { return ids[2:] })
	list.reject("p-00000")
	for range 2 {
		_, err = c.Sync(t.Context())
		require.NoError(t, err)
	}
	for id, want := range map[string]catalogsync.Presence{"p-00000": catalogsync.PresenceMissing, "p-00001": catalogsync.PresenceGone, "p-00002": catalogsync.PresencePresent} {
		record, _ := c.Get(id)
		assert.Equal(t, want, record.Presence, id)
	}
}

// A single product without an id must not be stored. The request must stay.
func TestProductWithoutIDIsNotStored(t *testing.T) {
	t.Parallel()
	list := newMovingList(3)
	c := list.copy(t, catalogsync.Config{})
	_, err := c.Sync(t.Context())
	require.NoError(t, err)
	list.blank = true
	request(t, c, "p-00001")
	require.ErrorIs(t, c.FetchRequested(t.Context()), api.ErrBadResponse)
	assert.Len(t, names(t, c, catalogsync.SearchOptions{Query: "product"}), 3)
	state := c.State()
	assert.Equal(t, 1, state.Requested)
}

// Run must find events without a webhook, and read each event once. After a restart, it reads only the
// newest one again.
func TestRunFindsEventsWithoutWebhook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform := dispensarytest.New(t, dispensarytest.WithInMemory())
		client := platform.Client(model.User{})
		shared := &row{}
		made := func(s catalogsync.Snapshots) *catalogsync.Catalog {
			c, err := catalogsync.New(catalogsync.Config{Catalog: client.Catalog, Events: client.Events, Snapshots: s, Interval: 20 * time.Minute})
			require.NoError(t, err)
			return c
		}
		c := start(t, shared, made)
		time.Sleep(5 * time.Minute)
		product := platform.Products.All()[3]
		platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusForbidden, Operation: "events.get", Times: 1})
		_, _, err := platform.Products.Describe(product.ID, "<p>New</p>")
		require.NoError(t, err)
		time.Sleep(16 * time.Minute)
		r, _ := c.Get(product.ID)
		assert.Equal(t, "<p>New</p>", r.Product.DescriptionHTML)
		_, _, err = platform.Products.Update(product.ID, model.ProductUpdate{Name: new("Newer")})
		require.NoError(t, err)
		require.NoError(t, platform.Products.Remove(product.ID))
		time.Sleep(time.Hour)
		assert.Len(t, platform.Journal.Requests("events.get"), 3, "one for each event, and the failed one")
		assert.Zero(t, c.State().Requested)
		c.stop()
		c = start(t, shared, made)
		time.Sleep(time.Minute)
		assert.Len(t, platform.Journal.Requests("events.get"), 4)
		c.stop()
	})
}
