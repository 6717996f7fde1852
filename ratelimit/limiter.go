package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Limiter limits the requests of one process to a number in any period of a given length. The
// limit is exact: no such period contains more requests. For its priorities, see the package
// comment. It is safe for concurrent use and implements [api.PausingLimiter].
type Limiter struct {
	requests int
	limits   limits

	mu     sync.Mutex
	queue  queue
	starts window
	timer  *time.Timer
	pause  pause
}

var _ api.PausingLimiter = (*Limiter)(nil)

// New returns a limiter for the given number of requests in any period of length per. It uses
// 8 bytes of memory per request. If requests is below 1 or per is not positive, it returns an
// [*api.ArgumentError].
func New(requests int, per time.Duration) (*Limiter, error) {
	if requests < 1 || per <= 0 {
		return nil, &api.ArgumentError{Field: "ratelimit.New", Reason: fmt.Sprintf("must allow at least one request in a positive period, not %d in %s", requests, per)}
	}
	return &Limiter{
		requests: requests, limits: limitsOf(requests, per),
		queue: newQueue(requests, per), starts: window{per: per},
	}, nil
}

// Wait returns when the caller may send one request with the priority of ctx, see
// [api.ContextWithPriority]. If ctx would end first, Wait fails with [ErrDeadline] at once. A
// failed or canceled wait uses none of the limit.
func (l *Limiter) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := l.enter(ctx)
	if err != nil {
		return err
	}
	return w.await(ctx, l.leave)
}

func (l *Limiter) enter(ctx context.Context) (*waiter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.queue.now()
	l.starts.forget(now)
	w := l.queue.waiter(ctx, now)
	if l.queue.earliest(&l.starts, &l.limits, w.priority, now) > w.deadline {
		return nil, ErrDeadline
	}
	l.queue.push(w)
	l.dispatch(now)
	return w, nil
}

func (l *Limiter) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.element != nil {
		l.queue.remove(w)
		l.dispatch(l.queue.now())
	}
}

// dispatch starts all requests that the limits permit now, and schedules its next call.
func (l *Limiter) dispatch(now time.Duration) {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.starts.forget(now)
	for {
		w, as, turn := l.queue.next(now)
		if w == nil {
			return
		}
		if at := l.starts.free(l.limits[as], 0, now); at > now {
			if as != api.PriorityInteractive {
				at = min(at, turn)
			}
			l.timer = time.AfterFunc(at-now, l.wake)
			return
		}
		l.starts.add(now)
		l.queue.finish(w, nil, now)
	}
}

func (l *Limiter) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dispatch(l.queue.now())
}

// Left returns the number of further requests that the limit permits now. Background requests
// may still have to wait, because they are spread over the period.
func (l *Limiter) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts.forget(l.queue.now())
	return l.requests - l.starts.n
}

// Pause implements [api.PausingLimiter].
func (l *Limiter) Pause(d time.Duration) { l.pause.extend(d) }

// Paused implements [api.PausingLimiter].
func (l *Limiter) Paused() time.Duration { return l.pause.left() }

// pause is a time during which the platform accepts no requests.
type pause struct {
	mu    sync.Mutex
	until time.Time
}

// extend extends the pause to d from now. It reports whether this is at least 1 second longer.
func (p *pause) extend(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	longer := time.Until(p.until.Add(time.Second)) < d
	if until := time.Now().Add(d); until.After(p.until) {
		p.until = until
	}
	return longer
}

func (p *pause) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.until))
}
