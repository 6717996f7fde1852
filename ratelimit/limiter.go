package ratelimit

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

const (
	// reserved is the part of a limit that only requests for which a person waits may
	// take: one in so many.
	reserved = 50

	// guaranteed is how often a request of a lower priority starts although others of a
	// higher one wait: once in so many.
	guaranteed = 10

	// burst is how much of the limit background requests may take faster than their
	// pace: one in so many.
	burst = 10
)

// Limiter keeps the requests of a process below a number in any period of a given length,
// exactly: however they are spread, no such period sees more of them. It is safe for
// concurrent use, and an [api.PausingLimiter].
//
// Requests for which a person waits, [api.PriorityInteractive], pass without delay while
// there is something left of the limit, in bursts too. Those of the background are spread
// over the period, apart from a first tenth, and leave a fiftieth of the limit to people.
// Where several wait, the highest priority goes first, and one request in ten is one of a
// lower priority, the one that has waited the longest: so no work is kept waiting without
// end.
type Limiter struct {
	mu      sync.Mutex
	begin   time.Time // of the clock that starts are on
	starts  window
	quota   int // how many a period may hold
	lower   int // so many, for a request of the background to start
	rate    int // so many, at the pace of the background
	waiting [api.Priorities]list.List
	waiters int
	paced   time.Duration // when the background would be at its pace
	last    time.Duration // when it started its last request
	passed  int           // starts in a row while one of a lower priority waited
	timer   *time.Timer
	pause   time.Time
}

var _ api.PausingLimiter = (*Limiter)(nil)

// waiter is a request that waits.
type waiter struct {
	ready    chan struct{}
	element  *list.Element // nil once it may start
	priority api.Priority
	since    time.Duration
}

// New returns a limiter of requests in any period of per. It keeps 16 bytes a request.
// An error is an [*api.ArgumentError].
func New(requests int, per time.Duration) (*Limiter, error) {
	if requests < 1 || per <= 0 {
		return nil, &api.ArgumentError{Field: "ratelimit.New", Reason: fmt.Sprintf("wants at least one request in a positive period, not %d in %s", requests, per)}
	}
	l := newLimiter(per)
	l.quota = requests
	l.lower = requests - requests/reserved
	l.rate = l.lower
	return l, nil
}

func newLimiter(per time.Duration) *Limiter {
	return &Limiter{starts: window{per: per}}
}

// ErrDeadline is returned where the wait would outlast the deadline.
var ErrDeadline = errors.New("dispensary: the rate limit allows no request before the deadline")

// Wait returns when the caller may send one request, whose priority is that of ctx; see
// [api.ContextWithPriority]. It fails with [ErrDeadline] at once where ctx would end first.
// A wait that fails, or is cancelled before its turn, takes nothing from the limit.
func (l *Limiter) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := l.enter(ctx)
	if w == nil {
		return err
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		l.leave(w)
		return ctx.Err()
	}
}

// enter starts the request at once, where it may, or puts it among those that wait.
func (l *Limiter) enter(ctx context.Context) (*waiter, error) {
	p := api.PriorityOf(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.starts.forget(now)
	if l.waiters == 0 && l.due(p, now) <= now {
		l.start(p, now)
		return nil, nil
	}
	if deadline, ok := ctx.Deadline(); ok && l.next(p, l.ahead(p), now) > deadline.Sub(l.begin) {
		return nil, ErrDeadline
	}
	w := &waiter{ready: make(chan struct{}), priority: p, since: now}
	w.element = l.waiting[p].PushBack(w)
	l.waiters++
	l.dispatch(now)
	return w, nil
}

// leave takes one that has given up from those that wait.
func (l *Limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.element == nil {
		return // it had its turn in the same moment
	}
	l.remove(w)
	l.dispatch(l.now())
}

func (l *Limiter) remove(w *waiter) {
	l.waiting[w.priority].Remove(w.element)
	w.element = nil
	l.waiters--
}

// now is the time on the limiter's clock, which begins with its first use.
func (l *Limiter) now() time.Duration {
	if l.begin.IsZero() {
		l.begin = time.Now()
	}
	return time.Since(l.begin)
}

// ahead is how many wait before a request of the priority.
func (l *Limiter) ahead(p api.Priority) (n int) {
	for i := range p + 1 {
		n += l.waiting[i].Len()
	}
	return n
}

// next returns when a request of the priority may start, after ahead others.
func (l *Limiter) next(p api.Priority, ahead int, now time.Duration) time.Duration {
	if p == api.PriorityInteractive {
		return l.starts.free(l.quota, ahead, now)
	}
	return max(l.starts.free(l.lower, ahead, now), l.pace())
}

// pace returns when the background may start its next request, so that it is spread over the
// period.
func (l *Limiter) pace() time.Duration {
	return l.paced - time.Duration(max(0, l.rate/burst-1))*l.spacing()
}

// spacing is the least time from one request of the background to the next, but for bursts.
func (l *Limiter) spacing() time.Duration {
	return l.starts.per / time.Duration(max(1, l.rate))
}

// start records a request that starts now.
func (l *Limiter) start(p api.Priority, now time.Duration) {
	l.starts.add(start{now, p})
	if p != api.PriorityInteractive {
		l.paced, l.last = max(l.paced, now)+l.spacing(), now
	}
}

// dispatch starts what may start, and sees to it that it is called again when there will be
// more.
func (l *Limiter) dispatch(now time.Duration) {
	l.starts.forget(now)
	for l.waiters > 0 {
		w, at, turn := l.choose(now)
		if at > now {
			l.wake(at - now)
			return
		}
		switch {
		case turn:
			l.passed = 0
		case l.ahead(w.priority) < l.waiters && (w.priority != api.PriorityInteractive || l.pace() <= now):
			l.passed++
		}
		l.remove(w)
		l.start(w.priority, now)
		close(w.ready)
	}
	if l.timer != nil {
		l.timer.Stop()
	}
}

// choose returns who is next, and when. It is the turn of a lower priority if many others
// were preferred to it.
func (l *Limiter) choose(now time.Duration) (w *waiter, at time.Duration, turn bool) {
	for p := range l.waiting {
		first := l.waiting[p].Front()
		if first == nil {
			continue
		}
		one := first.Value.(*waiter)
		if w == nil {
			w = one
			if l.passed < guaranteed-1 {
				return w, l.due(w.priority, now), false
			}
			continue
		}
		if !turn || one.since < w.since {
			w, turn = one, true
		}
	}
	if turn {
		return w, l.starts.free(l.quota, 0, now), true
	}
	return w, l.due(w.priority, now), false
}

// due returns when a request of the priority may start that is the next to do so. The
// background leaves people what they need until there is more.
func (l *Limiter) due(p api.Priority, now time.Duration) time.Duration {
	at := l.next(p, 0, now)
	if p != api.PriorityInteractive && l.starts.n >= l.rate/burst {
		at = max(at, l.last+l.starts.spread(l.rate, now))
	}
	return at
}

// wake calls dispatch after a while.
func (l *Limiter) wake(after time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	if after >= never/2 {
		return // until the quota grows
	}
	l.timer = time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dispatch(l.now())
	})
}

// Pause implements [api.PausingLimiter].
func (l *Limiter) Pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := time.Now().Add(d); until.After(l.pause) {
		l.pause = until
	}
}

// Paused implements [api.PausingLimiter].
func (l *Limiter) Paused() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pause.IsZero() {
		return 0
	}
	return max(0, time.Until(l.pause))
}

// Left returns how many more requests the limit has room for now. Those of the background may
// have to wait all the same, as they are spread over the period.
func (l *Limiter) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts.forget(l.now())
	return l.quota - l.starts.n
}
