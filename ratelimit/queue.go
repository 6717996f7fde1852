package ratelimit

import (
	"container/list"
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority"
)

// ErrDeadline is returned if the wait would be longer than the deadline of the context.
var ErrDeadline = errors.New("dispensary: the rate limit allows no request before the deadline")

const (
	// spread is the number of parts of a period for the spread of background requests.
	spread = 30

	// turns is the number of requests that the limit permits between two turns of a starving
	// priority. With 40, the four background priorities together get a tenth of the limit.
	turns = 40

	// never is later than every other time.
	never = time.Duration(1<<63 - 1)
)

// parts are the percentages of the limit for the starts of each priority.
var parts = [priority.Count]int{100, 98, 95, 92, 90}

// limits contains the windows of each priority.
type limits [priority.Count][]Window

// limitsOf returns the windows of a limit. Background requests have two more windows: their
// part of the limit in the period, and an equal fraction of it in each part of the period.
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
	ready    chan struct{} // closed if the request may start or has failed
	err      error
	element  *list.Element // nil if the request is not in the queue
	priority api.Priority
	since    time.Duration
	deadline time.Duration
}

// await returns when w may start. If ctx ends first, it calls leave.
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
	begin    time.Time     // zero of the queue's clock
	patience time.Duration // time between two turns of a priority
	waiting  [priority.Count]list.List
	last     [priority.Count]time.Duration // last start of each priority
}

func newQueue(requests int, per time.Duration) queue {
	return queue{begin: time.Now(), patience: turns * per / time.Duration(requests)}
}

func (q *queue) now() time.Duration { return time.Since(q.begin) }

// waiter returns a new request without adding it to the queue.
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

// finish starts w, or fails it with err.
func (q *queue) finish(w *waiter, err error, now time.Duration) {
	q.remove(w)
	if err == nil {
		q.last[w.priority] = now
	}
	w.err = err
	close(w.ready)
}

// ahead returns the number of waiting requests before a new one of a priority.
func (q *queue) ahead(p api.Priority) (n int) {
	for i := range p + 1 {
		n += q.waiting[i].Len()
	}
	return n
}

// turn returns the time of the turn of a request, by its position among the requests of its
// priority.
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

// earliest returns the earliest start of a new request of a priority, if w contains all
// starts.
func (q *queue) earliest(w *window, l *limits, p api.Priority, now time.Duration) time.Duration {
	turn := max(q.turn(p, q.waiting[p].Len(), now), w.free(l[api.PriorityInteractive], 0, now))
	return min(turn, w.free(l[p], q.ahead(p), now))
}

// next returns the next request to start and the priority of the limits for it. This is the
// first request of the highest priority. If another background priority has its turn, it is
// that priority's first request, with the limits of interactive requests. turn is the time of
// the next such turn. If the queue is empty, w is nil.
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
