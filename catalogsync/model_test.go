package catalogsync_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// TestModel plays random worlds. Products are added, changed and removed at any moment of a
// sync. Events are lost, repeated and late, requests fail, and syncs are canceled. During all
// of this, no product of the platform may be gone. After one undisturbed walk and a read of
// the requested products, the copy and the index must match the platform.
func TestModel(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	for seed := range testsize.Of(20, 1000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newWorld(t, uint64(seed)).play() })
		})
	}
}

// world is one run of TestModel.
type world struct {
	t        *testing.T
	platform *dispensarytest.Server
	client   *dispensary.Client
	c        *catalogsync.Catalog

	mu        sync.Mutex
	random    *rand.Rand
	late      []events.ProductEvent
	unknown   map[string]bool // products with a change hidden from lists whose event was lost
	disturbed bool
	cancel    context.CancelFunc
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, platform: dispensarytest.New(t, dispensarytest.WithInMemory()), random: rand.New(rand.NewPCG(seed, 16)), unknown: map[string]bool{}}
	w.client = w.platform.Client(model.User{}, dispensary.WithTransport(w), dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 1}))
	var err error
	w.c, err = catalogsync.New(catalogsync.Config{
		Catalog: w.client.Catalog, PageSize: 2 + w.random.IntN(15), Prefetch: 1 + w.random.IntN(5), Details: w.random.IntN(2) == 0,
	})
	require.NoError(t, err)
	return w
}

func (w *world) play() {
	ctx := w.t.Context()
	for range 12 {
		w.disturbed = true
		running, cancel := context.WithCancel(ctx)
		w.cancel = cancel
		if w.random.IntN(5) < 3 {
			_, _ = w.c.Sync(running)
		} else {
			_ = w.c.FetchRequested(running)
		}
		cancel()
		w.disturbed = false
		w.noneIsGone()
	}
	for _, e := range w.late {
		require.NoError(w.t, w.c.HandleEvent(ctx, e))
	}
	time.Sleep(time.Second)
	quiet := time.Now()
	walk, err := w.c.Sync(ctx)
	require.NoError(w.t, err)
	if walk.StartedAt.Before(quiet) { // its first pages are older
		_, err = w.c.Sync(ctx)
		require.NoError(w.t, err)
	}
	require.NoError(w.t, w.c.FetchRequested(ctx))
	w.equal()
	for range 10 { // confirms removed products, ten per walk
		time.Sleep(time.Second)
		_, err = w.c.Sync(ctx)
		require.NoError(w.t, err)
	}
	state := w.c.State()
	assert.Zero(w.t, state.Records[catalogsync.PresenceMissing])
	assert.Zero(w.t, state.Requested)
	w.equal()
}

// RoundTrip waits before and after each request, and the world changes during these waits.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := w.disturb(); err != nil {
		return nil, err
	}
	response, err := w.platform.HTTPClient().Transport.RoundTrip(r)
	if failed := w.disturb(); failed != nil && err == nil {
		_ = response.Body.Close()
		return nil, failed
	}
	return response, err
}

func (w *world) disturb() error {
	w.mu.Lock()
	pause := time.Duration(1+w.random.IntN(40)) * time.Millisecond
	w.mu.Unlock()
	time.Sleep(pause)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.disturbed {
		return nil
	}
	switch w.random.IntN(25) {
	case 0, 1, 2, 3, 4:
		w.change()
	case 5:
		return errors.New("the connection broke")
	case 6:
		if w.random.IntN(3) == 0 {
			w.cancel()
		}
	case 7:
		if len(w.late) > 0 {
			at := w.random.IntN(len(w.late))
			assert.NoError(w.t, w.c.HandleEvent(context.Background(), w.late[at]))
			w.late = append(w.late[:at], w.late[at+1:]...)
		}
	}
	return nil
}

// change changes the platform. All changes except a removal create an event.
func (w *world) change() {
	all := w.platform.Products.All()
	p := all[w.random.IntN(len(all))]
	var e model.Event
	var err error
	hidden := false // hidden from lists
	switch w.random.IntN(6) {
	case 0:
		p, e, err = w.platform.Products.Create(model.ProductCreate{Variants: make([]model.VariantCreate, 1+w.random.IntN(3))})
	case 1:
		_, e, err = w.platform.Products.Update(p.ID, model.ProductUpdate{Name: new(fmt.Sprintf("Name %d", w.random.Int()))})
	case 2:
		hidden = true
		_, e, err = w.platform.Products.Describe(p.ID, fmt.Sprintf("<p>%d</p>", w.random.Int()))
	case 3:
		at := w.random.IntN(len(p.VariantIDs))
		hidden = at > 0
		status := []string{model.VariantAvailable, model.VariantBackordered, model.VariantDiscontinued}[w.random.IntN(3)]
		_, e, err = w.platform.Products.UpdateVariant(p.VariantIDs[at], model.VariantUpdate{Status: &status})
	default:
		if len(all) < 10 {
			return
		}
		assert.NoError(w.t, w.platform.Products.Remove(p.ID))
		return
	}
	if !assert.NoError(w.t, err) {
		return
	}
	event := events.ProductEvent{Event: events.Event{ID: e.ID, Type: events.Type(e.Type)}, Object: catalog.Product{ID: p.ID}}
	switch w.random.IntN(5) {
	case 0: // lost
		w.unknown[p.ID] = w.unknown[p.ID] || hidden
		return
	case 1:
		w.late = append(w.late, event, event)
	default:
		assert.NoError(w.t, w.c.HandleEvent(context.Background(), event))
	}
	delete(w.unknown, p.ID)
}

func (w *world) records() map[string]catalogsync.Record {
	byID := map[string]catalogsync.Record{}
	for r := range w.c.Changes(0) {
		byID[r.Product.ID] = r
	}
	return byID
}

func (w *world) noneIsGone() {
	records := w.records()
	for _, p := range w.platform.Products.All() {
		require.NotEqual(w.t, catalogsync.PresenceGone, records[p.ID].Presence, p.ID)
	}
}

// equal compares the copy and its index with the platform.
func (w *world) equal() {
	ctx, records, there := w.t.Context(), w.records(), map[string]bool{}
	for listed, err := range w.client.Catalog.Products.List().All(ctx) {
		require.NoError(w.t, err)
		there[listed.ID] = true
		r := records[listed.ID]
		require.Equal(w.t, catalogsync.PresencePresent, r.Presence, listed.ID)
		shown := r.Product
		shown.DescriptionHTML, shown.Variants, shown.Dosage, shown.CustomDosage = "", nil, nil, nil
		require.Equal(w.t, listed, shown)
		result, err := w.c.Search(catalogsync.SearchOptions{Query: listed.PrimaryVariant.SKU})
		require.NoError(w.t, err)
		require.NotEmpty(w.t, result.Hits)
		require.Equal(w.t, listed.Name, result.Hits[0].Name)
		if r.DetailsAt.IsZero() || w.unknown[listed.ID] {
			continue
		}
		single, err := w.client.Catalog.Products.Get(ctx, listed.ID)
		require.NoError(w.t, err)
		single.PrimaryVariant = listed.PrimaryVariant
		require.Equal(w.t, *single, r.Product)
	}
	for id, r := range records {
		require.True(w.t, there[id] || r.Presence != catalogsync.PresencePresent, id)
	}
}
