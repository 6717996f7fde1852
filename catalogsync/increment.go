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
	// pollInterval is how often Run looks for what other processes request.
	pollInterval = 10 * time.Second

	// firstRetry is how long Run waits after the first failure; it doubles with each that
	// follows, up to the interval.
	firstRetry = 10 * time.Second

	requestPage = 100

	// maxFailures in a row say that it is not one product that cannot be read, but all.
	maxFailures = 3
)

// HandleEvent stores that the event's product is to be read. That is all: an event may come
// twice, late or out of order, as what is read is what the platform has then. Register it for
// all product events:
//
//	router.OnProductCreated(syncer.HandleEvent)
//	router.OnProductUpdated(syncer.HandleEvent)
//	router.OnProductDescriptionUpdated(syncer.HandleEvent)
//
// An event without a product id that a store can contain is logged and skipped. An error is
// that of the store. API section: "Event types".
func (s *Syncer) HandleEvent(ctx context.Context, e events.ProductEvent) error {
	if err := catalogstore.CheckID(e.Object.ID); err != nil {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "a product event was skipped", slog.String("reason", err.Error()))
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

// FetchRequested reads the products that are requested, one by one, until none is left; then,
// if [SyncerConfig.Details] is set, those that never had details, until all have. A product
// that the platform does not have is dropped: that it is missing is for the list to say.
//
// A product that cannot be read does not hold up the others, unless three fail in a row. It
// stays requested and is logged. [Syncer.Run] postpones it by ten seconds, and by more each
// time; a call of FetchRequested tries it.
//
// Errors: [catalogstore.ErrSyncing] while another one reads; those of the store; those of the
// API, of which the first is returned.
// API section: GET /catalog/products/<id>.
func (s *Syncer) FetchRequested(ctx context.Context) error {
	ctx = priority.WithDefault(ctx, api.PriorityCatalog)
	failed, err := s.fetchUntil(ctx, true, func() bool { return false })
	return cmp.Or(err, failed)
}

// productError is what became of the request for one product; that for another may succeed.
type productError struct{ error }

func (e productError) Unwrap() error { return e.error }

// fetch reads a product by itself, and stores it. An error of the API is a productError.
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

// fetchUntil is FetchRequested that ends before all have details, and may leave those that are
// postponed. Failed is the first error of a product; with err nothing more was read.
func (s *Syncer) fetchUntil(ctx context.Context, postponed bool, ended func() bool) (failed, err error) {
	if idle, err := s.idle(ctx); err != nil || idle { // which needs no lock
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

// answer reads what is requested. A request that was there before is answered, however the
// clock went of who made it; that for a product which was postponed stays.
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

// due returns requests whose products are not postponed, the oldest first.
func (s *Syncer) due(ctx context.Context) ([]catalogstore.Request, error) {
	requests, err := s.config.Store.Requested(ctx, requestPage+len(s.postponed))
	return slices.DeleteFunc(requests, func(r catalogstore.Request) bool { return s.isPostponed(r.ProductID) }), err
}

// fetchOrPostpone is fetch. A product that the platform does not have is no error, and one
// that cannot be read is postponed.
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
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "a product was not read",
			slog.String("product_id", id), slog.String("reason", err.Error()), slog.Duration("retry_in", s.postponed[id].pause))
	}
	return err
}

func (s *Syncer) isPostponed(id string) bool {
	return s.postponed[id] != nil && time.Now().Before(s.postponed[id].notBefore)
}

// idle says whether nothing is to be read by itself.
func (s *Syncer) idle(ctx context.Context) (bool, error) {
	requests, err := s.config.Store.Requested(ctx, 1)
	if err != nil || len(requests) > 0 {
		return false, err
	}
	ids, err := s.undetailed(ctx, "")
	return len(ids) == 0, err
}

// undetailed returns the next product whose details are to be read.
func (s *Syncer) undetailed(ctx context.Context, after string) ([]string, error) {
	if !s.config.Details {
		return nil, nil
	}
	return s.config.Store.Undetailed(ctx, after, 1)
}

// Run keeps the copy until ctx ends, and returns its error then. It calls [Syncer.Sync] when
// the last walk began [SyncerConfig.Interval] ago, and between walks reads what is requested as
// [Syncer.FetchRequested] does: at once if this Syncer handled the event, within ten seconds
// if another process did. After a failure, which is logged, it waits ten seconds, and longer
// each time. Several processes may run it for one store: one of them reads, the others wait.
func (s *Syncer) Run(ctx context.Context) error {
	ctx = priority.WithDefault(ctx, api.PriorityCatalog)
	var walks, fetches retry
	for ctx.Err() == nil {
		s.attempt(ctx, &walks, "the catalog was not read", func() error {
			next, err := s.nextWalk(ctx)
			if err == nil && !time.Now().Before(next) {
				_, err = s.Sync(ctx)
			}
			return err
		})
		s.attempt(ctx, &fetches, "requested products were not read", func() error {
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

// nextWalk is when the next walk begins: at once if the newest did not come to its end.
func (s *Syncer) nextWalk(ctx context.Context) (time.Time, error) {
	state, err := s.config.Store.State(ctx)
	if err != nil || state.Newest.CompletedAt.IsZero() {
		return time.Time{}, err
	}
	return state.Newest.StartedAt.Add(s.config.Interval), nil
}

// retry is when something that failed is attempted again.
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
	case ctx.Err() != nil || errors.Is(err, catalogstore.ErrSyncing): // another one reads
	default:
		r.fail(s.config.Interval)
		s.config.Logger.LogAttrs(ctx, slog.LevelError, failure, slog.String("reason", err.Error()), slog.Duration("retry_in", r.pause))
	}
}
