package catalogsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/priority"
)

const (
	// pollInterval is the interval at which Run checks for requests of other processes.
	pollInterval = 10 * time.Second

	// firstRetry is the wait of Run after the first failure. It doubles with each further
	// failure, up to SyncerConfig.Interval.
	firstRetry = 10 * time.Second

	requestPage = 100

	// maxFailures is the number of consecutive failures after which reading stops, because
	// then probably no product can be read.
	maxFailures = 3
)

// HandleEvent requests a read of the event's product and returns. An event may be repeated,
// late or out of order, because the later read returns the current product. Register it for
// all product events:
//
//	router.OnProductCreated(syncer.HandleEvent)
//	router.OnProductUpdated(syncer.HandleEvent)
//	router.OnProductDescriptionUpdated(syncer.HandleEvent)
//
// HandleEvent logs and skips an event if a store cannot contain its product id, for example
// because it is empty. Errors are those of the store.
//
// API section: "Event types".
func (s *Syncer) HandleEvent(ctx context.Context, e events.ProductEvent) error {
	if err := catalogstore.CheckID(e.Object.ID); err != nil {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "skipped a product event", slog.String("reason", err.Error()))
		return nil
	}
	if err := s.config.Store.Request(ctx, time.Now(), e.Object.ID); err != nil {
		return err
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// FetchRequested reads the requested products one by one until none is left. If
// [SyncerConfig.Details] is set, it then reads the products whose details were never read. If
// the platform does not have a product, FetchRequested drops the request. Only a walk over the
// list can mark the product as missing.
//
// If a product cannot be read, FetchRequested logs the failure, keeps the request and
// continues with the next one. It stops after three consecutive failures. [Syncer.Run] retries
// such a product after ten seconds, doubling up to the Interval. A call of FetchRequested
// retries it at once.
//
// Errors:
//
//   - [catalogstore.ErrSyncing]: another call or process is reading.
//   - The first error of the API.
//   - Errors of the store.
//
// API section: GET /catalog/products/<id>.
func (s *Syncer) FetchRequested(ctx context.Context) error {
	ctx = priority.WithDefault(ctx, api.PriorityCatalog)
	failed, err := s.fetchUntil(ctx, true, func() bool { return false })
	return cmp.Or(err, failed)
}

// productError is a failed request for one product. Requests for other products may succeed.
type productError struct{ error }

func (e productError) Unwrap() error { return e.error }

// fetch reads and stores a single product. An error of the API is a productError.
func (s *Syncer) fetch(ctx context.Context, id string) error {
	readAt, err := s.wait(ctx)
	if err != nil {
		return err
	}
	product, err := s.config.Catalog.Products.Get(ctx, id)
	if err == nil {
		if wrong := catalogstore.CheckID(product.ID); wrong != nil {
			err = fmt.Errorf("%w: %w", api.ErrBadResponse, wrong)
		}
	}
	switch {
	case err == nil:
		_, err = s.config.Store.SaveDetails(ctx, readAt, *product)
		return err
	case ctx.Err() != nil:
		return err
	}
	return productError{err}
}

// fetchUntil implements FetchRequested. It reads postponed products only if postponed is set,
// and reads no more products without details once ended returns true. failed is the first
// error of a product. err is the error that stopped it.
func (s *Syncer) fetchUntil(ctx context.Context, postponed bool, ended func() bool) (failed, err error) {
	if idle, err := s.idle(ctx); err != nil || idle { // checked without the lock
		return nil, err
	}
	unlock, err := s.config.Store.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, unlock()) }()
	s.fetching.Lock()
	defer s.fetching.Unlock()
	if postponed {
		for _, r := range s.postponed {
			r.notBefore = time.Time{}
		}
	}
	inRow := 0
	fetch := func(id string) error {
		err := s.fetchOrPostpone(ctx, id)
		if !errors.As(err, new(productError)) {
			inRow = 0
			return err
		}
		failed = cmp.Or(failed, err)
		if inRow++; inRow == maxFailures {
			return err
		}
		return nil
	}
	for after := ""; ; {
		requests, err := s.due(ctx)
		if err != nil {
			return failed, err
		}
		if err := s.answer(ctx, requests, fetch); err != nil {
			return failed, err
		}
		if len(requests) > 0 {
			continue
		}
		ids, err := s.undetailed(ctx, after)
		if err != nil || len(ids) == 0 || ended() {
			return failed, err
		}
		after = ids[0]
		if s.isPostponed(after) {
			continue
		}
		if err := fetch(after); err != nil {
			return failed, err
		}
	}
}

// answer reads the requested products. It drops each request that existed before the read,
// even if its time is in the future because of another process's clock. A request for a
// postponed product stays.
func (s *Syncer) answer(ctx context.Context, requests []catalogstore.Request, fetch func(id string) error) error {
	for _, r := range requests {
		if err := fetch(r.ProductID); err != nil {
			return err
		}
		if s.postponed[r.ProductID] != nil {
			continue
		}
		if err := s.config.Store.Drop(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// due returns the requests for products that are not postponed, oldest first.
func (s *Syncer) due(ctx context.Context) ([]catalogstore.Request, error) {
	requests, err := s.config.Store.Requested(ctx, requestPage+len(s.postponed))
	return slices.DeleteFunc(requests, func(r catalogstore.Request) bool { return s.isPostponed(r.ProductID) }), err
}

// fetchOrPostpone calls fetch and postpones a product that cannot be read. It returns nil if
// the platform does not have the product.
func (s *Syncer) fetchOrPostpone(ctx context.Context, id string) error {
	err := s.fetch(ctx, id)
	switch {
	case err == nil, errors.Is(err, api.ErrNotFound):
		delete(s.postponed, id)
		return nil
	case errors.As(err, new(productError)):
		if s.postponed[id] == nil {
			s.postponed[id] = new(retry)
		}
		s.postponed[id].fail(s.config.Interval)
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "could not read a product",
			slog.String("product_id", id), slog.String("reason", err.Error()), slog.Duration("retry_in", s.postponed[id].pause))
	}
	return err
}

func (s *Syncer) isPostponed(id string) bool {
	return s.postponed[id] != nil && time.Now().Before(s.postponed[id].notBefore)
}

// idle reports whether there is no single product to read.
func (s *Syncer) idle(ctx context.Context) (bool, error) {
	requests, err := s.config.Store.Requested(ctx, 1)
	if err != nil || len(requests) > 0 {
		return false, err
	}
	ids, err := s.undetailed(ctx, "")
	return len(ids) == 0, err
}

// undetailed returns the next product whose details were never read, if Details is set.
func (s *Syncer) undetailed(ctx context.Context, after string) ([]string, error) {
	if !s.config.Details {
		return nil, nil
	}
	return s.config.Store.Undetailed(ctx, after, 1)
}

// Run keeps the copy up to date until ctx ends, and returns the error of ctx. It calls
// [Syncer.Sync] once [SyncerConfig.Interval] has passed since the start of the last walk.
// Between walks it reads requested products like [Syncer.FetchRequested]: at once if this
// Syncer handled the event, or within ten seconds if another process did.
//
// Run logs each failure and retries after ten seconds, doubling up to the Interval. Several
// processes may call Run for one store: one of them reads and the others wait.
func (s *Syncer) Run(ctx context.Context) error {
	ctx = priority.WithDefault(ctx, api.PriorityCatalog)
	var walks, fetches retry
	for ctx.Err() == nil {
		s.attempt(ctx, &walks, "could not read the catalog", func() error {
			next, err := s.nextWalk(ctx)
			if err == nil && !time.Now().Before(next) {
				_, err = s.Sync(ctx)
			}
			return err
		})
		s.attempt(ctx, &fetches, "could not read requested products", func() error {
			next, err := s.nextWalk(ctx)
			if err != nil {
				return err
			}
			_, err = s.fetchUntil(ctx, false, func() bool { return !time.Now().Before(next) && !time.Now().Before(walks.notBefore) })
			return err
		})
		poll := time.NewTimer(pollInterval)
		select {
		case <-ctx.Done():
		case <-poll.C:
		case <-s.wake:
		}
		poll.Stop()
	}
	return ctx.Err()
}

// nextWalk returns the time of the next walk. It is zero, which means now, if the newest walk
// is incomplete, or if it began so far ahead that its process had a wrong clock.
func (s *Syncer) nextWalk(ctx context.Context) (time.Time, error) {
	state, err := s.config.Store.State(ctx)
	if err != nil || state.Newest.CompletedAt.IsZero() {
		return time.Time{}, err
	}
	next := state.Newest.StartedAt.Add(s.config.Interval)
	if time.Until(next) > 2*s.config.Interval {
		return time.Time{}, nil
	}
	return next, nil
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

func (s *Syncer) attempt(ctx context.Context, r *retry, failure string, call func() error) {
	if time.Now().Before(r.notBefore) {
		return
	}
	err := call()
	switch {
	case err == nil:
		*r = retry{}
	case ctx.Err() != nil || errors.Is(err, catalogstore.ErrSyncing): // another call or process is reading
	default:
		r.fail(s.config.Interval)
		s.config.Logger.LogAttrs(ctx, slog.LevelError, failure, slog.String("reason", err.Error()), slog.Duration("retry_in", r.pause))
	}
}
