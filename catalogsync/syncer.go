package catalogsync

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/priority"
)

// SyncerConfig configures a [Syncer]. Catalog and Store are required.
type SyncerConfig struct {
	// Catalog is the Catalog of a client with a token source. All users of the store see the
	// data that the client's user sees, including the custom dosages of a practitioner.
	Catalog catalog.Service

	// Store contains the copy of the catalog.
	Store catalogstore.Store

	// Limiter limits the requests of the Syncer, for example a ratelimit.Limiter. Each request
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
	// nothing else to read. If it is false, details are read only for requested products, for
	// example after an event.
	Details bool

	// Interval is the time from the start of one walk to the next in [Syncer.Run]. 0 means one
	// hour. Stock changes cause no event, so stock data can be as old as the interval.
	Interval time.Duration

	// OnProgress is called after each stored page, by the goroutine that called Sync or Run.
	// Nil is allowed.
	OnProgress func(Progress)

	// Logger logs failures in Run and skipped products. Nil logs nothing.
	Logger *slog.Logger
}

// ErrTooManySkipped is the error of [Syncer.Sync] if more than a fifth of the listed products, and
// more than 10, are not objects or have no usable ID or an invalid number.
var ErrTooManySkipped = errors.New("catalogsync: too many products of the list cannot be used")

// Progress is the progress of a call of [Syncer.Sync].
type Progress struct {
	Walk   catalogstore.Walk   // as stored
	Counts catalogstore.Counts // of all pages stored by this call

	Pages    int           // length of the list, according to its newest page
	Requests int           // made by this call, including prefetched pages
	Elapsed  time.Duration // since the start of the call
}

// Syncer keeps a copy of the catalog in a [catalogstore.Store]. It is safe for concurrent use.
// Get it from [NewSyncer].
type Syncer struct {
	config SyncerConfig
	wake   chan struct{} // signals a new request

	fetching  sync.Mutex        // locked while products are read one by one
	postponed map[string]*retry // unreadable products, by id
}

// NewSyncer returns a syncer. Call [Syncer.Run] or [Syncer.Sync] to start it. An error is an
// [*api.ArgumentError] or [api.ArgumentErrors].
func NewSyncer(c SyncerConfig) (*Syncer, error) {
	var wrong api.ArgumentErrors
	refuse := func(field, reason string) {
		wrong = append(wrong, &api.ArgumentError{Field: "catalogsync.SyncerConfig." + field, Reason: reason})
	}
	if c.Catalog == (catalog.Service{}) {
		refuse("Catalog", "is empty")
	}
	if c.Store == nil {
		refuse("Store", "is nil")
	}
	for field, value := range map[string]int64{
		"Prefetch": int64(c.Prefetch), "PageSize": int64(c.PageSize), "Interval": int64(c.Interval),
	} {
		if value < 0 {
			refuse(field, "must not be negative")
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	c.Prefetch, c.PageSize, c.Interval = max(c.Prefetch, 1), cmp.Or(c.PageSize, 100), cmp.Or(c.Interval, time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Syncer{config: c, wake: make(chan struct{}, 1), postponed: map[string]*retry{}}, nil
}

// Sync reads the whole list once. It continues a walk that was interrupted less than 24 hours
// ago, or begins the next one. Each page is stored together with the progress of the walk. If
// Sync ends early, even with its process, the next Sync continues the walk.
//
// The list may change during the walk. If it becomes shorter from one page to the next, a
// product may have slipped between them, so Sync reads these pages again. A product that the
// walk still did not see becomes missing, and the next walk finds it. If two walks did not see
// a product, Sync reads it by its id, and it is gone if the platform does not have it. For all
// of this, Sync makes at most one extra request per ten pages, or 10 if that is more. The
// remaining products stay missing until a later walk.
//
// Sync logs and skips a product that cannot be stored, for example because it has no id: see
// [catalogstore.Walk].Skipped. If the list shows a stored product in this way, the product is
// not recognized and becomes missing. It is gone only if the platform does not have its id.
//
// Errors:
//
//   - [catalogstore.ErrSyncing]: another call or process is reading the list.
//   - [*api.IncompleteListError]: the list ended before its own count of products. The next
//     Sync continues there.
//   - [ErrTooManySkipped]: the walk changes no presence. The next Sync reads the whole list.
//   - Errors of the store and of the API.
//
// Sync returns the progress of the walk, also with an error.
//
// API section: GET /catalog/products, GET /catalog/products/<id>.
func (s *Syncer) Sync(ctx context.Context) (walk catalogstore.Walk, err error) {
	ctx = priority.WithDefault(ctx, api.PriorityCatalog)
	unlock, err := s.config.Store.Lock(ctx)
	if err != nil {
		return catalogstore.Walk{}, err
	}
	defer func() { err = cmp.Or(err, unlock()) }()
	w := walker{Syncer: s, startedAt: time.Now(), pages: map[int]chan listedPage{}}
	if err = w.run(ctx); err == nil {
		err = s.readAttributes(ctx)
	}
	return w.walk, err
}

// wait waits for the limiter. It returns the start time of the following request.
func (s *Syncer) wait(ctx context.Context) (readAt time.Time, err error) {
	if s.config.Limiter != nil {
		err = s.config.Limiter.Wait(ctx)
	}
	return time.Now(), cmp.Or(err, ctx.Err())
}

// readAttributes stores the ingredients and allergens of products if Filters is set. It logs
// and skips an ingredient or allergen without an id. If a search ends early, it logs this and
// uses the products found.
func (s *Syncer) readAttributes(ctx context.Context) error {
	if !s.config.Filters {
		return nil
	}
	all, c := map[string]catalogstore.Attributes{}, s.config.Catalog
	wait := func() error {
		_, err := s.wait(ctx)
		return err
	}
	search := func(id string, o catalog.ProductSearchOptions, add func(*catalogstore.Attributes)) error {
		if id == "" { // the search would find every product
			s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "skipped a product attribute", slog.String("reason", "no id"))
			return nil
		}
		err := each(c.Products.Search(o).Pages(ctx), wait, func(p catalog.Product) error {
			a := all[p.ID]
			add(&a)
			all[p.ID] = a
			return nil
		})
		if cut := (*api.IncompleteListError)(nil); errors.As(err, &cut) {
			s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "a product attribute has more products than its search returns",
				slog.String("id", id), slog.Int("returned", cut.Read), slog.Int("total", cut.Total))
			return nil
		}
		return err
	}
	err := each(c.Ingredients.List().Pages(ctx), wait, func(i catalog.Ingredient) error {
		return search(i.ID, catalog.ProductSearchOptions{IngredientIDs: []string{i.ID}}, func(a *catalogstore.Attributes) { a.IngredientIDs = append(a.IngredientIDs, i.ID) })
	})
	if err != nil {
		return err
	}
	err = each(c.Allergens.List().Pages(ctx), wait, func(i catalog.Allergen) error {
		return search(i.ID, catalog.ProductSearchOptions{AllergenIDs: []string{i.ID}}, func(a *catalogstore.Attributes) { a.AllergenIDs = append(a.AllergenIDs, i.ID) })
	})
	if err != nil {
		return err
	}
	return s.config.Store.SaveAttributes(ctx, all)
}

// each calls a function for each item of a list. It waits before each request.
func each[T any](pages iter.Seq2[*api.Page[T], error], wait func() error, use func(T) error) error {
	if err := wait(); err != nil {
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
			if err := wait(); err != nil {
				return err
			}
		}
	}
	return nil
}
