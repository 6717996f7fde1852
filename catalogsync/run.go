package catalogsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
)

const (
	// step is the interval at which Run checks for due work.
	step = 10 * time.Second

	// userStep is the interval at which it checks for a user while none is connected.
	userStep = time.Second

	// firstRetry is the wait of Run after the first failure. It doubles with each further
	// failure: up to lastRetry for a walk or a list, and up to Config.Interval for a product.
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute

	// maxFailures is the number of consecutive failures after which reading stops, because
	// then probably no product can be read.
	maxFailures = 3

	// overlap is the time before the newest known event that the next list covers again. It is
	// longer than the delay of the list, and than the difference of usual clocks.
	overlap = 10 * time.Minute

	// lastSave is the timeout of the snapshot at the end of Sync and Run.
	lastSave = 10 * time.Second
)

// HandleEvent requests a read of the event's product and returns. An event may be repeated,
// late or out of order, because the later read returns the current product. Register it for
// all product events:
//
//	router.OnProductCreated(c.HandleEvent)
//	router.OnProductUpdated(c.HandleEvent)
//	router.OnProductDescriptionUpdated(c.HandleEvent)
//
// HandleEvent logs and skips an event without a usable product id. It never fails. If the process
// is killed before its next snapshot, the next process finds the event again: see [Config].Events.
//
// API section: "Event types".
func (c *Catalog) HandleEvent(ctx context.Context, e events.ProductEvent) error {
	if err := checkID(e.Object.ID); err != nil {
		c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "skipped a product event", slog.String("reason", err.Error()))
		return nil
	}
	c.request(e.Object.ID)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// FetchRequested reads the products with events one by one until none is left, and builds the
// index. If [Config.Details] is set, it then reads the products whose details were never read. If
// the platform does not have a product, FetchRequested drops the request. Only a walk over the list
// can mark the product as missing. At the end, it saves a snapshot.
//
// If a product cannot be read, FetchRequested logs the failure, keeps the request and
// continues with the next one. It stops after three consecutive failures. [Catalog.Run] retries
// such a product after ten seconds, doubling up to the Interval. A call of FetchRequested
// retries it at once.
//
// Errors are [ErrSyncing], the first error of the API, and errors of the snapshots.
//
// API section: GET /catalog/products/<id>.
func (c *Catalog) FetchRequested(ctx context.Context) error {
	failed, err := c.fetch(apikit.WithPriority(ctx, api.PriorityCatalog), true, func() bool { return false })
	return errors.Join(cmp.Or(err, failed), c.finish(ctx))
}

// productError is a failed request for one product. Requests for other products may succeed.
type productError struct{ error }

func (e productError) Unwrap() error { return e.error }

// readProduct reads and stores a single product. An error of the API is a productError.
func (c *Catalog) readProduct(ctx context.Context, id string) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	at, readAt := c.tick(), time.Now()
	product, err := c.config.Catalog.Products.Get(ctx, id)
	if err == nil {
		if wrong := checkID(product.ID); wrong != nil {
			err = fmt.Errorf("%w: %w", api.ErrBadResponse, wrong)
		}
	}
	switch {
	case err == nil:
		c.saveDetails(at, readAt, *product)
		return nil
	case errors.Is(err, api.ErrNotFound):
		c.drop(id, at)
	case ctx.Err() != nil:
		return err
	}
	return productError{err}
}

// fetch implements FetchRequested. It reads postponed products only if all is set, and reads no
// more products without details once ended returns true. failed is the first error of a product.
// err is the error that stopped it.
func (c *Catalog) fetch(ctx context.Context, all bool, ended func() bool) (failed, err error) {
	postponed, done, err := c.read()
	if err != nil {
		return nil, err
	}
	defer done()
	if all {
		clear(postponed)
	}
	inRow := 0
	var undetailed []string
	if c.config.Details {
		undetailed = c.undetailed()
	}
	next := 0
	for {
		id := c.requested(postponed)
		switch {
		case id != "":
		case next < len(undetailed) && !ended():
			id, next = undetailed[next], next+1
			if r := postponed[id]; r != nil && time.Now().Before(r.notBefore) {
				continue
			}
		default:
			return failed, nil
		}
		err := c.readProduct(ctx, id)
		c.tend(ctx)
		switch {
		case err == nil, errors.Is(err, api.ErrNotFound):
			delete(postponed, id)
			inRow = 0
		case errors.As(err, new(productError)):
			if postponed[id] == nil {
				postponed[id] = new(retry)
			}
			postponed[id].fail(c.config.Interval)
			c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "could not read a product",
				slog.String("product_id", id), slog.String("reason", err.Error()), slog.Duration("retry_in", postponed[id].pause))
			failed = cmp.Or(failed, err)
			if inRow++; inRow == maxFailures {
				return failed, err
			}
		default:
			return failed, err
		}
	}
}

// requested returns the oldest requested product that is not postponed, or "".
func (c *contents) requested(postponed map[string]*retry) (oldest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, at := range c.pending {
		if r := postponed[id]; (r == nil || !time.Now().Before(r.notBefore)) && (oldest == "" || at < c.pending[oldest]) {
			oldest = id
		}
	}
	return oldest
}

// drop removes the request for a product that the platform does not have.
func (c *contents) drop(id string, at moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(id, at)
}

// undetailed returns the products whose details were never read.
func (c *contents) undetailed() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range c.records {
		if r.Presence != PresenceGone && r.DetailsAt.IsZero() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Run keeps the copy up to date until ctx ends, and returns the error of ctx. It calls
// [Catalog.Sync] once [Config.Interval] has passed since the start of the last walk of any process.
// With Snapshots it waits up to a tenth longer, and longer during the walk of another process, so
// that seldom two processes walk at once. Between walks it reads products with events at once.
//
// Once a minute, Run exchanges snapshots and builds the index if something has changed. With more
// than 100,000 products, it does this once in ten minutes. At the end, it saves a snapshot.
//
// Run logs each failure. It retries a walk or a list after ten seconds, doubling up to five minutes,
// and a product up to the Interval. Run can start before the client's user connects: it logs this
// once, as information, and reads the catalog within a second after the user connects.
//
// API section: GET /events/products, GET /events/<id>.
func (c *Catalog) Run(ctx context.Context) error {
	ctx = apikit.WithPriority(ctx, api.PriorityCatalog)
	var s schedule
	for ctx.Err() == nil {
		c.tend(ctx)
		if c.config.Catalog != (catalog.Service{}) {
			c.readDue(ctx, &s)
		}
		timer := time.NewTimer(s.step())
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.wake:
		}
		timer.Stop()
	}
	if err := c.shareLast(ctx); err != nil {
		c.config.Logger.LogAttrs(ctx, slog.LevelError, "could not save the snapshot of the catalog", slog.String("reason", err.Error()))
	}
	return ctx.Err()
}

// schedule contains the times of the next reads of Run.
type schedule struct {
	walks, lists, fetches retry
	spread                time.Duration   // from the Interval to the next walk
	seen                  map[string]bool // IDs of the events of the last list
	noUser                bool            // the last attempt failed because no user is connected
}

func (s *schedule) step() time.Duration {
	if s.noUser {
		return userStep
	}
	return step
}

// readDue reads due lists and products.
func (c *Catalog) readDue(ctx context.Context, s *schedule) {
	if s.noUser {
		_, err := c.config.Catalog.Products.List().PageSize(1).Page(ctx) // sends nothing without a user
		if errors.Is(err, api.ErrReauthorize) {
			return
		}
		s.noUser = false
	}
	c.attempt(ctx, s, &s.walks, "could not read the catalog", func() error {
		if !c.isDue(s.spread) || c.Load(ctx) == nil && !c.isDue(s.spread) { // another process has begun meanwhile
			return nil
		}
		if c.config.Snapshots != nil {
			s.spread = rand.N(c.config.Interval/10 + 1)
		}
		_, err := c.Sync(ctx)
		return err
	})
	if c.attempt(ctx, s, &s.lists, "could not read the events of products", func() error { return c.listEvents(ctx, s) }) {
		s.lists.notBefore = time.Now().Add(c.config.Interval)
	}
	c.attempt(ctx, s, &s.fetches, "could not read requested products", func() error {
		_, err := c.fetch(ctx, false, func() bool { return c.isDue(s.spread) && !time.Now().Before(s.walks.notBefore) })
		return err
	})
}

// isDue reports whether a walk is due: an interrupted one of this process at once, and the next one
// after the Interval and the spread. While another process reports its walk, it waits for a second
// Interval.
func (c *Catalog) isDue(spread time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := c.config.Interval + spread
	if time.Since(c.elsewhere) < 3*c.period() {
		wait += c.config.Interval
	}
	return c.newest.CompletedAt.IsZero() || !time.Now().Before(c.complete.StartedAt.Add(wait))
}

// listEvents requests the products of the events since the newest known one, except of those in the
// last list.
func (c *Catalog) listEvents(ctx context.Context, s *schedule) error {
	service := c.config.Events
	if service == (events.Service{}) {
		return nil
	}
	c.mu.Lock()
	newest := c.heard
	c.mu.Unlock()
	if now := time.Now(); newest.After(now) {
		newest = now
	}
	list := service.List(events.ListOptions{Since: newest.Add(-overlap), Groups: []events.Group{events.GroupProducts}})
	all := map[string]bool{}
	err := each(ctx, c, list.Pages(ctx), func(listed events.Event) error {
		if all[listed.ID] = true; s.seen[listed.ID] {
			return nil
		}
		if err := c.tendAndWait(ctx); err != nil {
			return err
		}
		full, err := service.Get(ctx, listed.ID)
		if errors.Is(err, api.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if listed.CreatedAt.After(newest) {
			newest = listed.CreatedAt.Time
		}
		e, err := events.As[catalog.Product](*full)
		if err != nil {
			c.config.Logger.LogAttrs(ctx, slog.LevelWarn, "skipped a product event", slog.String("reason", err.Error()))
			return nil
		}
		return c.HandleEvent(ctx, e)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, s.seen = newest, all
	return nil
}

// retry is the time of the next attempt after failures.
type retry struct {
	pause     time.Duration
	notBefore time.Time
}

func (r *retry) fail(most time.Duration) {
	r.pause = min(max(firstRetry, 2*r.pause), most)
	r.notBefore = time.Now().Add(r.pause)
}

// attempt makes a call unless its retry is later. It logs a failure, and reports success.
func (c *Catalog) attempt(ctx context.Context, s *schedule, r *retry, failure string, call func() error) bool {
	if time.Now().Before(r.notBefore) {
		return false
	}
	err := call()
	switch {
	case err == nil:
		*r = retry{}
		return true
	case ctx.Err() != nil || errors.Is(err, ErrSyncing): // another call is reading
	case errors.Is(err, api.ErrReauthorize):
		if !s.noUser {
			c.config.Logger.LogAttrs(ctx, slog.LevelInfo, failure+" before a user connects", slog.String("reason", err.Error()))
		}
		s.noUser = true
	default:
		r.fail(min(lastRetry, c.config.Interval))
		c.config.Logger.LogAttrs(ctx, slog.LevelError, failure, slog.String("reason", err.Error()), slog.Duration("retry_in", r.pause))
	}
	return false
}
