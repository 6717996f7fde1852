package events

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// mergedPageSize is the default number of events on a merged page.
const mergedPageSize = 100

// merge yields the events of several groups in one order. It yields a page before it waits
// for a group, so a consumer with enough events causes no further request.
func (l lister) merge(ctx context.Context, s api.ListSettings, yield func(*api.Page[Event], error) bool) {
	ctx = l.client.OneAccount(ctx)
	var streams []*stream
	defer func() {
		for _, one := range streams {
			one.stop()
		}
	}()
	report := s.OnDrift
	for _, src := range l.sources {
		one := &stream{rank: src.rank}
		if report != nil {
			s.OnDrift = func(d api.Drift) { one.drifts = append(one.drifts, d) }
		}
		one.next, one.stop = iter.Pull2(l.read(ctx, src, s))
		streams = append(streams, one)
	}
	if s.Prefetch > 1 {
		fillAll(streams)
	}
	for _, one := range streams {
		one.reportDrifts(report)
	}
	page, left := newMergedPage(1), s.Limit
	flush := func() bool {
		full := page
		page = newMergedPage(page.Meta.CurrentPage + 1)
		return yield(full, nil)
	}
	for {
		for _, one := range streams {
			if one.isFilled() {
				continue
			}
			if len(page.Items) > 0 && !flush() {
				return
			}
			one.fill()
			one.reportDrifts(report)
			if one.err != nil {
				yield(nil, one.err)
				return
			}
		}
		first := l.first(streams)
		if first == nil {
			break
		}
		page.Items = append(page.Items, first.take())
		left--
		if (len(page.Items) == cmp.Or(s.PageSize, mergedPageSize) || left == 0) && !flush() || left == 0 {
			return
		}
	}
	if len(page.Items) > 0 {
		flush()
	}
}

func newMergedPage(number int) *api.Page[Event] {
	return &api.Page[Event]{Meta: api.Meta{CurrentPage: number}}
}

// first returns the stream of the next event, or nil if there is none. Of events with the same
// time, the cause is older than its effect.
func (l lister) first(streams []*stream) (first *stream) {
	for _, one := range streams {
		if len(one.items) == 0 {
			continue
		}
		if first == nil || (one.compare(first) < 0) != l.descending {
			first = one
		}
	}
	return first
}

// stream is the reading position in a group.
type stream struct {
	rank  int
	next  func() (*api.Page[Event], error, bool)
	stop  func()
	items []Event // the next events
	last  time.Time
	err   error
	ended bool

	drifts []api.Drift // not reported yet, because another goroutine may fill the stream

	unwound  bool // by a panic, or by [runtime.Goexit] if panicked is nil
	panicked any
}

// isFilled reports whether fill has nothing to do.
func (s *stream) isFilled() bool { return len(s.items) > 0 || s.ended }

// fill reads pages until one has an event.
func (s *stream) fill() {
	for !s.isFilled() && s.err == nil {
		page, err, more := s.next()
		switch {
		case !more:
			s.ended = true
		case err != nil:
			s.err = err
		default:
			s.items = page.Items
		}
	}
}

// reportDrifts reports the drifts of the pages that fill has read.
func (s *stream) reportDrifts(report func(api.Drift)) {
	for _, d := range s.drifts {
		report(d)
	}
	s.drifts = nil
}

// take removes the next event.
func (s *stream) take() Event {
	s.last = s.time()
	e := s.items[0]
	s.items = s.items[1:]
	return e
}

// time returns the time of the next event. An event without a readable time follows the
// previous event.
func (s *stream) time() time.Time {
	if at := s.items[0].CreatedAt.Time; !at.IsZero() {
		return at
	}
	return s.last
}

func (s *stream) compare(other *stream) int {
	return cmp.Or(s.time().Compare(other.time()), cmp.Compare(s.rank, other.rank))
}

// fillAll reads the first pages of all streams at the same time. It raises a panic of a stream
// in the caller's goroutine.
func fillAll(streams []*stream) {
	var filling sync.WaitGroup
	for _, one := range streams {
		filling.Go(func() {
			one.unwound = true
			defer func() {
				if one.unwound {
					one.panicked = recover()
				}
			}()
			one.fill()
			one.unwound = false
		})
	}
	filling.Wait()
	for _, one := range streams {
		switch {
		case one.panicked != nil:
			panic(one.panicked)
		case one.unwound:
			runtime.Goexit()
		}
	}
}
