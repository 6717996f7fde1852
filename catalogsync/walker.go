package catalogsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

const (
	// maxWalkAge is the age from which an interrupted walk is not continued, because its first
	// pages are too old.
	maxWalkAge = 24 * time.Hour

	// minExtra is the number of extra requests allowed for a short list.
	minExtra = 10

	// minSkipped is the number of skipped products allowed for a short list.
	minSkipped = 10
)

// walker is one call of [Catalog.Sync].
//
// The product list can change between two page requests. The only evidence is the total that
// each page reports. If the total of page i+1 is at least that of page i, no product listed
// throughout can have slipped between the two pages, whichever of them was read first. If the
// total is smaller by n, up to n products may have moved from after page i to before page i+1,
// so the walk goes back by n products.
//
// The walk cannot notice a removed product if another one is added between the same pages, or
// a product that changes its position. At worst, another product becomes missing. It is gone
// only if the platform does not have its id.
type walker struct {
	*Catalog
	startedAt time.Time
	walk      Walk // as stored

	before   int          // requests of this walk before this call
	requests atomic.Int64 // of this call
	counts   Counts
	extra    int // requests beyond one for each page

	pages  map[int]chan listedPage // prefetched pages, by number
	newest atomic.Int64            // total of the page that was read last
	last   int                     // number of the last page of the list
	ended  time.Time               // time at which the last stored page had been read
}

// listedPage is a page of the list. began and ended are the times of its request.
type listedPage struct {
	*api.Page[catalog.Product]
	listed       []catalog.Product // with different ids
	repeated     int               // products that the page shows again later
	skipped      int               // other products not in listed
	err          error
	began, ended time.Time
	at           moment // of its request
}

func (p listedPage) total() int { return p.Meta.TotalCount }

// elements returns the number of products on the page, including unusable ones.
func (p listedPage) elements() int { return len(p.Items) + p.Omitted }

// isLast reports whether page number is the last page of the list.
func (p listedPage) isLast(number int) bool {
	return p.Meta.NextPage == 0 && number >= p.Meta.TotalPages
}

func (w *walker) run(ctx context.Context) error {
	resumed := w.resume()
	_ = w.share(ctx) // tells other processes. Sync reports the error of its last snapshot
	if err := w.readPages(ctx, resumed); err != nil {
		return err
	}
	if most := max(minSkipped, w.walk.Total/5); w.walk.Skipped > most {
		return fmt.Errorf("%w: %d of %d", ErrTooManySkipped, w.walk.Skipped, w.walk.Total)
	}
	gone, err := w.confirm(ctx)
	if err != nil {
		return err
	}
	end := w.walk
	end.Requests, end.CompletedAt = w.before+int(w.requests.Load()), time.Now()
	w.walk = w.end(end, gone)
	return nil
}

// resume continues the newest walk or begins the next one. It does not continue a walk that has
// read the last page, because [ErrTooManySkipped] may have rejected its list.
func (w *walker) resume() bool {
	newest := w.newestWalk()
	if newest.CompletedAt.IsZero() && newest.Page > 0 && newest.Page*newest.PageSize < newest.Total && w.startedAt.Sub(newest.StartedAt) < maxWalkAge {
		w.walk, w.before, w.last = newest, newest.Requests, ceil(newest.Total, newest.PageSize)
		w.extra = max(0, newest.Requests-newest.Page) // an interrupted walk has one budget for all calls
		return true
	}
	w.walk, w.last = Walk{Generation: newest.Generation + 1, StartedAt: w.startedAt, PageSize: w.config.PageSize}, 1
	w.begin(w.walk)
	return false
}

// readPages reads and stores all pages, from the first or the last stored page on.
func (w *walker) readPages(ctx context.Context, resumed bool) error {
	var reading sync.WaitGroup
	defer reading.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, next := w.walk.Page, max(w.walk.Page, 1) // number of first pages without an unseen product, and next page
	for back := resumed; ; {
		page := w.take(ctx, next, &reading)
		if page.err != nil {
			return page.err
		}
		if shorter := w.walk.Total - page.total(); shorter > 0 && seen > 0 && w.mayReadMore() {
			w.extra++
			if page.began.Before(w.ended) && page.total() != int(w.newest.Load()) {
				delete(w.pages, next) // older than the page before
				continue
			}
			seen = max(0, seen-ceil(shorter, w.walk.PageSize))
			back, w.walk.Total, next = true, page.total(), min(next, seen+1)
			continue
		}
		// If back is set, the page must first show that it follows the seen pages. Until then,
		// the stored progress stays at the page before.
		back = back && next > 1
		counts := w.store(page, next, back)
		w.tend(ctx)
		if back && counts.Repeated == 0 && w.mayReadMore() {
			w.extra++
			seen, next = next-2, next-1
			continue
		}
		if page.isLast(next) {
			return w.atEnd(page, next)
		}
		delete(w.pages, next)
		seen, next, back = next, next+1, false
	}
}

// mayReadMore reports whether the walk may make an extra request.
func (w *walker) mayReadMore() bool { return w.extra < w.mostExtra() }

func (w *walker) mostExtra() int { return max(minExtra, w.last/10) }

// take returns a page, and starts to read the pages after it.
func (w *walker) take(ctx context.Context, number int, reading *sync.WaitGroup) listedPage {
	for ahead := number; ahead == number || ahead <= w.last && ahead < number+w.config.Prefetch; ahead++ {
		if w.pages[ahead] == nil {
			page := make(chan listedPage, 1)
			w.pages[ahead] = page
			size := w.walk.PageSize
			reading.Go(func() { page <- w.readPage(ctx, ahead, size) })
		}
	}
	page := <-w.pages[number]
	w.pages[number] <- page // it may be needed again
	return page
}

func (w *walker) readPage(ctx context.Context, number, size int) (p listedPage) {
	if p.err = w.wait(ctx); p.err != nil {
		return p
	}
	p.began, p.at = time.Now(), w.tick()
	w.requests.Add(1)
	p.Page, p.err = w.config.Catalog.Products.List().StartAt(number).PageSize(size).Page(ctx)
	p.ended = time.Now()
	if p.err == nil {
		w.newest.Store(int64(p.Meta.TotalCount))
		p.listed, p.skipped = w.listed(ctx, p, number)
		all := len(p.listed)
		p.listed = lastOfEach(p.listed)
		p.repeated = all - len(p.listed)
	}
	return p
}

// listed returns the products of a page that the copy can contain, and the number of other
// products. It logs once per page, because all its products may be unusable.
func (w *walker) listed(ctx context.Context, p listedPage, number int) (listed []catalog.Product, skipped int) {
	var about []slog.Attr // the first unusable product
	if skipped = p.Omitted; skipped > 0 {
		about = append(about, slog.String("first_reason", "not an object"))
	}
	for _, product := range p.Items {
		err := checkID(product.ID)
		if err == nil {
			setDetails(&product, catalog.Product{})
			listed = append(listed, product)
			continue
		}
		if skipped++; skipped == 1 {
			about = append(about, slog.String("first_product_id", product.ID), slog.String("first_reason", err.Error()))
		}
	}
	if skipped > 0 {
		w.config.Logger.LogAttrs(ctx, slog.LevelWarn, "skipped products of the list", append(about, slog.Int("page", number), slog.Int("skipped", skipped))...)
	}
	return listed, skipped
}

// lastOfEach returns the last product of each id.
func lastOfEach(products []catalog.Product) []catalog.Product {
	last := make(map[string]int, len(products))
	for i := range products {
		last[products[i].ID] = i
	}
	if len(last) == len(products) {
		return products
	}
	of := make([]catalog.Product, 0, len(last))
	for i, p := range products {
		if last[p.ID] == i {
			of = append(of, p)
		}
	}
	return of
}

// store stores a page. The stored progress is this page, or the page before if back is set.
func (w *walker) store(page listedPage, number int, back bool) Counts {
	walk := w.walk
	walk.Page, walk.Total, walk.Requests = number, page.total(), w.before+int(w.requests.Load())
	walk.Skipped += page.skipped
	if back {
		walk.Page--
	}
	if number == 1 && !page.isLast(number) && page.elements() > 0 {
		walk.PageSize = min(walk.PageSize, page.elements()) // the platform limits the page size
	}
	counts := w.savePage(walk, page.listed, page.began, page.at)
	counts.Repeated += page.repeated
	w.last = max(page.Meta.TotalPages, page.Meta.NextPage)
	w.walk, w.ended = walk, page.ended
	w.counts = sum(w.counts, counts)
	if w.config.OnProgress != nil {
		w.config.OnProgress(Progress{
			Walk: w.walk, Counts: w.counts, Pages: max(w.last, number), Requests: int(w.requests.Load()), Elapsed: time.Since(w.startedAt),
		})
	}
	return counts
}

// atEnd stores that the last page was read. It fails with an [*api.IncompleteListError] if the
// list ended before its own count of products, as behind a search engine that returns only the
// first 10,000.
func (w *walker) atEnd(page listedPage, number int) error {
	if listed := (number-1)*w.walk.PageSize + page.elements(); listed < page.total() {
		return fmt.Errorf("catalogsync: %w", &api.IncompleteListError{Read: listed, Total: page.total()})
	}
	w.walk.Page = number
	w.savePage(w.walk, nil, time.Time{}, 0)
	return nil
}

// confirm reads the products that this walk and the previous one did not see, by id and oldest
// ReadAt first. It returns the ids that the platform does not have. An unreadable product
// stays missing. After three consecutive failures, the remaining products do too.
func (w *walker) confirm(ctx context.Context) (gone []string, err error) {
	failures := 0 // consecutive
	for _, id := range w.suspects(max(0, w.mostExtra()-w.extra)) {
		w.requests.Add(1)
		switch err := w.readProduct(ctx, id); {
		case errors.Is(err, api.ErrNotFound):
			gone, failures = append(gone, id), 0
		case errors.As(err, new(productError)):
			if failures++; failures == maxFailures {
				return gone, nil
			}
		case err != nil:
			return nil, err
		default:
			failures = 0
		}
	}
	return gone, nil
}

func sum(a, b Counts) Counts {
	return Counts{
		Created: a.Created + b.Created, Updated: a.Updated + b.Updated,
		Unchanged: a.Unchanged + b.Unchanged, Repeated: a.Repeated + b.Repeated,
	}
}

// ceil returns the number of pages of a size for n products.
func ceil(n, size int) int { return (n + size - 1) / max(size, 1) }
