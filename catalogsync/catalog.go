// Package catalogsync keeps a copy of the platform's catalog in memory, and searches it. A
// search sends no request and is fast enough for every letter that a user types.
//
//	c, err := catalogsync.New(catalogsync.Config{
//		Catalog: client.Catalog, Events: client.Events,
//		Snapshots: catalogsync.File("/var/lib/ehr/catalog"),   // for a restart without reading the list
//	})
//	router.OnProductUpdated(c.HandleEvent)                // and the other product events
//	err = c.Run(ctx)                                      // reads the list every hour, and products with events
//
//	result, err := c.Search(catalogsync.SearchOptions{Query: "magn glyc"})
//	mux.Handle("GET /products", c.Handler(catalogsync.HandlerConfig{}))  // GET /products?q=magn+glyc
//	variant, err := client.Catalog.Variants.Get(ctx, id)  // before it is prescribed
//
//	for record := range c.Changes(revision) { … }         // for your own tables
//
// # The copy
//
// The record of a product has its content and its presence in the list. A product becomes
// missing if a walk over the whole list does not see it. It is gone only if the next walk does
// not see it either and the platform does not have its id. A list that changes while it is
// read therefore deletes nothing.
//
// # Snapshots
//
// [Catalog.Run] saves the copy as one document, and loads the document when it starts. [File]
// keeps it in a file. The cookbook has [Snapshots] in a row of PostgreSQL. Several processes may
// share one document. Each loads the documents of the others and merges them product by product:
// the newer read wins. One of the processes reads the list each hour. Sometimes two do, which
// is harmless. A process without a Config.Catalog sends no request and only searches.
//
// # Search
//
// A result is as old as the last walk ([Result.Age]). A variant may have been discontinued
// since, so read it again before use.
//
// The catalog contains the products of all brands, including those that a clinic may not
// order. By default, a search finds all of them. [SearchOptions].Permitted limits it to the
// brands of a clinic, which a [BrandCache] reads from the platform. The [Result] reports
// whether the limit was applied, and the age of the brands.
//
// # Privacy
//
// The catalog contains no patient data.
//
// API section: "Catalog".
package catalogsync

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
)

// Config configures a [Catalog]. Catalog or Snapshots is required.
type Config struct {
	// Catalog is the Catalog of a client with a token source. All users of the copy see the
	// data that the client's user sees, including the custom dosages of a practitioner. Without
	// it, the copy only follows the Snapshots of other processes.
	Catalog catalog.Service

	// Events is the Events of the same client. [Catalog.Run] reads the list of product events
	// when it starts and then once per Interval, and requests the products of new events. It
	// thereby finds events without a webhook, and events that a killed process handled after
	// its last snapshot. Each event costs one request, and another one for its product. Without
	// Events, a killed process can lose such requests.
	Events events.Service

	// Snapshots keeps the copy over a restart and shares it between processes. Nil means that
	// each process reads the whole list after its start.
	Snapshots Snapshots

	// Limiter limits the requests of the Catalog, for example a ratelimit.Limiter. Each request
	// waits for it. Nil means no wait beyond the limits of the client.
	Limiter api.Limiter

	// Prefetch is the number of pages to read concurrently and keep in memory. 0 and 1 mean
	// one page at a time.
	Prefetch int

	// PageSize is the number of products per page. 0 means 100.
	PageSize int

	// Filters reads the ingredients and allergens of products after each walk, with one search
	// for each ingredient and allergen. These searches find only products that the clinic may
	// order, so other products have no ingredients and allergens. If a search ends before its
	// count of products, the remaining products lack this ingredient or allergen.
	Filters bool

	// Details reads the details of each product once, with one request each, while there is
	// nothing else to read. If it is false, details are read only after an event.
	Details bool

	// Interval is the time from the start of one walk to the next in [Catalog.Run]. 0 means one
	// hour. Stock changes cause no event, so stock data can be as old as the interval.
	Interval time.Duration

	// OnProgress is called after each page, by the goroutine that called Sync or Run. Nil is
	// allowed.
	OnProgress func(Progress)

	// Logger logs failures in Run and skipped products. Nil logs nothing.
	Logger *slog.Logger
}

// Errors of a [Catalog].
var (
	// ErrTooManySkipped is the error of [Catalog.Sync] if more than a fifth of the listed
	// products, and more than 10, are not objects or have no usable ID.
	ErrTooManySkipped = errors.New("catalogsync: too many products of the list cannot be used")

	// ErrSyncing: another call reads the catalog.
	ErrSyncing = errors.New("catalogsync: another sync of this catalog is in progress")

	// ErrNotLoaded is the error of a search before the first walk or snapshot.
	ErrNotLoaded = apikit.NewSentinel("catalogsync: the catalog is not loaded yet", api.Problem{
		Status: http.StatusServiceUnavailable, Title: "The catalog is not ready yet. Please try again in a few minutes.",
	})
)

// Progress is the progress of a call of [Catalog.Sync].
type Progress struct {
	Walk   Walk
	Counts Counts // of all pages read by this call

	Pages    int           // length of the list, according to its newest page
	Requests int           // made by this call, including prefetched pages
	Elapsed  time.Duration // since the start of the call
}

// Catalog is a copy of the catalog. It is safe for concurrent use. Get it from [New].
type Catalog struct {
	config  Config
	current atomic.Pointer[index]
	wake    chan struct{}          // signals a new request
	shares  chan *shared           // contains the state of snapshots. Empty while a call uses it
	reading chan map[string]*retry // contains the unreadable products. Empty while a call reads the platform

	contents
}

// New returns a catalog without products. Call [Catalog.Run], [Catalog.Sync] or [Catalog.Load] to
// fill it. An error is an [*api.ArgumentError] or [api.ArgumentErrors].
func New(c Config) (*Catalog, error) {
	var wrong api.ArgumentErrors
	reject := func(field, reason string) {
		wrong = append(wrong, &api.ArgumentError{Field: "catalogsync.Config." + field, Reason: reason})
	}
	if c.Catalog == (catalog.Service{}) && c.Snapshots == nil {
		reject("Catalog", "is empty")
	}
	for field, value := range map[string]int64{
		"Prefetch": int64(c.Prefetch), "PageSize": int64(c.PageSize), "Interval": int64(c.Interval),
	} {
		if value < 0 {
			reject(field, "must not be negative")
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	c.Prefetch, c.PageSize, c.Interval = max(c.Prefetch, 1), cmp.Or(c.PageSize, 100), cmp.Or(c.Interval, time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Catalog{
		config: c, wake: make(chan struct{}, 1), shares: make(chan *shared, 1), reading: make(chan map[string]*retry, 1),
		contents: contents{records: map[string]*record{}, pending: map[string]moment{}, heard: time.Now()},
	}
	n.shares <- new(shared)
	n.reading <- map[string]*retry{}
	return n, nil
}

// Search finds products in the copy. If fewer products than Limit match, Search allows one typing
// error in each word of four letters or more: one wrong, missing or extra letter, or two swapped
// neighbors. It allows no error in words with digits, because 1000 is not 2000.
//
// Search uses an index of the copy. Run builds it again after a walk, and after other changes at
// most once a minute, or once in ten minutes if there are more than 100,000 products.
//
// Search fails with an [*api.ArgumentError] for "query", "limit" or "filters", or with
// [ErrNotLoaded] before the first index.
func (c *Catalog) Search(o SearchOptions) (Result, error) {
	index := c.current.Load()
	if index == nil {
		return Result{}, ErrNotLoaded
	}
	return index.search(o)
}

// Get returns the record of a product, and reports whether there is one.
func (c *Catalog) Get(id string) (Record, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.records[id]; r != nil {
		return r.Record, true
	}
	return Record{}, false
}

// Changes returns the records with a revision greater than after, in the order of revisions. It
// returns each record in its current state, including gone records. If after is 0, it returns the
// whole catalog. A record that changes meanwhile can appear twice.
//
// Each Catalog has its own revisions, with gaps. They continue in the next process with the same
// Snapshots. If several processes share the Snapshots, the next process returns all records again.
// A reader must follow one replica: if it moves to another one, it begins with 0.
func (c *Catalog) Changes(after int64) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for at := after; ; {
			page := c.changes(at, 1000)
			if len(page) == 0 {
				return
			}
			for _, r := range page {
				at = r.Revision
				if !yield(r) {
					return
				}
			}
		}
	}
}

// State returns the progress of reading the catalog.
func (c *Catalog) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Newest: c.newest, Complete: c.complete, Records: map[Presence]int{}, Requested: len(c.pending), Revision: c.last(), Searchable: c.current.Load() != nil}
	for _, r := range c.records {
		s.Records[r.Presence]++
		if r.Presence != PresenceGone && !r.DetailsAt.IsZero() {
			s.Detailed++
		}
	}
	return s
}

// Load merges the snapshot into the copy and builds the index. Run and Sync do this, too. Errors
// are those of the snapshots, or report a document that is not a snapshot of a catalog.
func (c *Catalog) Load(ctx context.Context) error {
	s := <-c.shares
	defer func() { c.shares <- s }()
	if err := c.load(ctx, s); err != nil {
		return err
	}
	c.index()
	return nil
}

// Sync loads the snapshot, reads the whole list once, and saves a snapshot. It continues a walk that
// was interrupted less than 24 hours ago, or begins the next one. During the walk, it saves a
// snapshot at most once a minute, so that the next process continues there.
//
// The list may change during the walk. If it becomes shorter from one page to the next, a
// product may have slipped between them, so Sync reads these pages again. A product that the
// walk still did not see becomes missing, and the next walk finds it. If two walks did not see
// a product, Sync reads it by its id, and it is gone if the platform does not have it. For all
// of this, Sync makes at most one extra request per ten pages, or 10 if that is more. The
// remaining products stay missing until a later walk.
//
// Sync logs and skips a product that it cannot use, for example because it has no id: see
// [Walk].Skipped. If the list shows a known product in this way, the product is not recognized and
// becomes missing. It is gone only if the platform does not have its id.
//
// Errors:
//
//   - [ErrSyncing]: another call is reading.
//   - [*api.IncompleteListError]: the list ended before its own count of products. The next
//     Sync continues there.
//   - [ErrTooManySkipped]: the walk changes no presence. The next Sync reads the whole list.
//   - Errors of the API, and of the snapshots.
//
// Sync returns the progress of the walk, also with an error.
//
// API section: GET /catalog/products, GET /catalog/products/<id>.
func (c *Catalog) Sync(ctx context.Context) (walk Walk, err error) {
	ctx = apikit.WithPriority(ctx, api.PriorityCatalog)
	_, done, err := c.read()
	if err != nil {
		return Walk{}, err
	}
	defer done()
	loaded := c.Load(ctx) // the walk does not need the snapshot
	w := walker{Catalog: c, startedAt: time.Now(), pages: map[int]chan listedPage{}}
	if err = w.run(ctx); err == nil {
		err = c.readAttributes(ctx)
	}
	return w.walk, errors.Join(err, cmp.Or(c.finish(ctx), loaded))
}

// read reserves the reading of the platform for the caller, until it calls done.
func (c *Catalog) read() (postponed map[string]*retry, done func(), err error) {
	if c.config.Catalog == (catalog.Service{}) {
		return nil, nil, &api.ArgumentError{Field: "catalogsync.Config.Catalog", Reason: "is empty"}
	}
	select {
	case postponed = <-c.reading:
		return postponed, func() { c.reading <- postponed }, nil
	default:
		return nil, nil, ErrSyncing
	}
}

// index replaces the index if a record has changed.
func (c *Catalog) index() {
	c.mu.Lock()
	walk, current := c.complete, c.current.Load()
	if walk.Generation == 0 {
		walk = c.newest
	}
	var all []*record
	revision := c.last()
	changed := current == nil || current.revision != revision
	if changed {
		all = slices.Collect(maps.Values(c.records))
	}
	c.mu.Unlock()
	switch {
	case walk.Page == 0:
	case changed:
		c.current.Store(newIndex(all, walk.StartedAt, revision))
	case !current.asOf.Equal(walk.StartedAt):
		c.current.Store(current.at(walk.StartedAt))
	}
}

// wait waits for the limiter.
func (c *Catalog) wait(ctx context.Context) (err error) {
	if c.config.Limiter != nil {
		err = c.config.Limiter.Wait(ctx)
	}
	return cmp.Or(err, ctx.Err())
}

// tendAndWait waits for the limiter between the requests of a long read.
func (c *Catalog) tendAndWait(ctx context.Context) error {
	c.tend(ctx)
	return c.wait(ctx)
}

// readAttributes stores the ingredients and allergens of products if Filters is set. It logs
// and skips an ingredient or allergen without an id. If a search ends early, it logs this and
// uses the products found.
func (c *Catalog) readAttributes(ctx context.Context) error {
	if !c.config.Filters {
		return nil
	}
	all, service := map[string]Attributes{}, c.config.Catalog
	search := func(id string, o catalog.ProductSearchOptions, add func(*Attributes)) error {
		if id == "" { // the search would find every product
			c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "skipped a product attribute", slog.String("reason", "no id"))
			return nil
		}
		err := each(ctx, c, service.Products.Search(o).Pages(ctx), func(p catalog.Product) error {
			a := all[p.ID]
			add(&a)
			all[p.ID] = a
			return nil
		})
		if cut := (*api.IncompleteListError)(nil); errors.As(err, &cut) {
			c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "a product attribute has more products than its search returns",
				slog.String("id", id), slog.Int("returned", cut.Read), slog.Int("total", cut.Total))
			return nil
		}
		return err
	}
	err := each(ctx, c, service.Ingredients.List().Pages(ctx), func(i catalog.Ingredient) error {
		return search(i.ID, catalog.ProductSearchOptions{IngredientIDs: []string{i.ID}}, func(a *Attributes) { a.IngredientIDs = append(a.IngredientIDs, i.ID) })
	})
	if err != nil {
		return err
	}
	err = each(ctx, c, service.Allergens.List().Pages(ctx), func(i catalog.Allergen) error {
		return search(i.ID, catalog.ProductSearchOptions{AllergenIDs: []string{i.ID}}, func(a *Attributes) { a.AllergenIDs = append(a.AllergenIDs, i.ID) })
	})
	if err != nil {
		return err
	}
	c.saveAttributes(all)
	return nil
}

// each calls a function for each item of a list. It waits before each request.
func each[T any](ctx context.Context, c *Catalog, pages iter.Seq2[*api.Page[T], error], use func(T) error) error {
	if err := c.tendAndWait(ctx); err != nil {
		return err
	}
	for page, err := range pages {
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := use(item); err != nil {
				return err
			}
		}
		if page.Meta.NextPage != 0 {
			if err := c.tendAndWait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
