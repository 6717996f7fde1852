package ratelimit

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority"
)

// ErrDeadline is returned if the wait would outlast the deadline of the context.
var ErrDeadline = errors.New("dispensary: the rate limit allows no request before the deadline")

const (
	// spread is the number of parts of a period over which background requests are spread.
	spread = 30

	// turns is the number of requests that the limit permits between two turns of a priority
	// that higher priorities would keep waiting: four background priorities have a tenth of
	// the limit together.
	turns = 40

	// never is later than all times.
	never = time.Duration(1<<63 - 1)
)

// parts are the percentages of the limit up to which requests of each priority start.
var parts = [priority.Count]int{100, 98, 95, 92, 90}

// limits are the windows of each priority.
type limits [priority.Count][]Window

// limitsOf returns the windows within a limit. Background requests also start no faster than
// their part of the limit in each part of the period.
func limitsOf(requests int, per time.Duration) (l limits) {
	whole := Window{requests, per}
	for p := range l {
		l[p] = []Window{whole}
		if api.Priority(p) != api.PriorityInteractive {
			part := max(1, requests*parts[p]/100)
			l[p] = append(l[p], Window{part, per}, Window{(part + spread - 1) / spread, per / spread})
		}
	}
	return l
}

// waiter is a request in a queue.
type waiter struct {
	ready    chan struct{} // closed when the request may start, or has failed
	err      error
	element  *list.Element // nil if it is not in the queue any more
	priority api.Priority
	since    time.Duration
	deadline time.Duration
}

// await returns when w may start. It calls leave if ctx ends before.
func (w *waiter) await(ctx context.Context, leave func(*waiter)) error {
	select {
	case <-w.ready:
		return w.err
	case <-ctx.Done():
		leave(w)
		return ctx.Err()
	}
}

// queue orders the waiting requests of a process.
type queue struct {
	begin    time.Time     // when its clock was 0
	patience time.Duration // time between two turns of a priority
	waiting  [priority.Count]list.List
	last     [priority.Count]time.Duration // last start of each priority
}

func newQueue(requests int, per time.Duration) queue {
	return queue{begin: time.Now(), patience: turns * per / time.Duration(requests)}
}

func (q *queue) now() time.Duration { return time.Since(q.begin) }

// waiter returns a request that is not in the queue yet.
func (q *queue) waiter(ctx context.Context, now time.Duration) *waiter {
	w := &waiter{ready: make(chan struct{}), priority: priority.Of(ctx), since: now, deadline: never}
	if deadline, ok := ctx.Deadline(); ok {
		w.deadline = deadline.Sub(q.begin)
	}
	return w
}

func (q *queue) push(w *waiter) { w.element = q.waiting[w.priority].PushBack(w) }

func (q *queue) remove(w *waiter) {
	q.waiting[w.priority].Remove(w.element)
	w.element = nil
}

// finish lets w start, or fail with err.
func (q *queue) finish(w *waiter, err error, now time.Duration) {
	q.remove(w)
	if err == nil {
		q.last[w.priority] = now
	}
	w.err = err
	close(w.ready)
}

// ahead returns the number of requests before a new one of a priority.
func (q *queue) ahead(p api.Priority) (n int) {
	for i := range p + 1 {
		n += q.waiting[i].Len()
	}
	return n
}

// turn returns the time at which it is the turn of a request, by its position among those of
// its priority.
func (q *queue) turn(p api.Priority, position int, now time.Duration) time.Duration {
	if p == api.PriorityInteractive {
		return never
	}
	since := now
	if front := q.waiting[p].Front(); front != nil {
		since = front.Value.(*waiter).since
	}
	return max(q.last[p], since) + time.Duration(position+1)*q.patience
}

// earliest returns the earliest start of a new request of a priority if all starts are in w.
func (q *queue) earliest(w *window, l *limits, p api.Priority, now time.Duration) time.Duration {
	turn := max(q.turn(p, q.waiting[p].Len(), now), w.free(l[api.PriorityInteractive], 0, now))
	return min(turn, w.free(l[p], q.ahead(p), now))
}

// next returns the request to start next and the priority whose limits apply to it. That is the
// first request of the highest priority, unless it is the turn of another one, to which the
// limits of people apply. turn is the time of the next such turn. It returns nil if no request
// waits.
func (q *queue) next(now time.Duration) (w *waiter, as api.Priority, turn time.Duration) {
	turn = never
	var due *waiter
	for p := range q.waiting {
		front := q.waiting[p].Front()
		if front == nil {
			continue
		}
		first := front.Value.(*waiter)
		if w == nil {
			w, as = first, first.priority
		}
		if at := q.turn(first.priority, 0, now); at < turn {
			turn, due = at, first
		}
	}
	if turn <= now {
		return due, api.PriorityInteractive, turn
	}
	return w, as, turn
}
