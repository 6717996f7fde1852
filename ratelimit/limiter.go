package ratelimit

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/defaults"
)

// Defaults of [FleetConfig].
const (
	defaultProcesses = 10
	defaultTimeout   = time.Second
)

// FleetConfig configures a [Fleet]. Store is required.
type FleetConfig struct {
	// Store counts the requests of all processes.
	Store Store

	// Name is the name of the limit. Fleets with the same store and name share it. Each
	// application has its own limit in each environment. An empty name is valid.
	Name string

	// Requests is the maximum number of requests of all processes in any period of length Per,
	// measured at the platform. If both are 0, the limit is 5,000 requests in 5 minutes. All
	// processes must have the same values.
	Requests int
	Per      time.Duration

	// Processes is the maximum number of processes. While the store is unavailable, each
	// process limits itself to Requests / Processes, but at least 1. 0 means 10.
	Processes int

	// Timeout is the maximum response time of the store. After it, the store counts as
	// unavailable. 0 means 1 second. A request may start up to Timeout after the store has
	// recorded it. The periods of the store are therefore longer than Per by Timeout, and by 1
	// second for the transfer to the platform.
	Timeout time.Duration

	// Logger logs when the store becomes unavailable and available again. Nil logs nothing.
	Logger *slog.Logger
}

func (c FleetConfig) withDefaults() (FleetConfig, error) {
	problem := func(field, reason string) error {
		return &api.ArgumentError{Field: "ratelimit.FleetConfig." + field, Reason: reason}
	}
	switch {
	case c.Store == nil:
		return c, problem("Store", "is missing")
	case c.Requests < 0:
		return c, problem("Requests", "is negative")
	case c.Per < 0:
		return c, problem("Per", "is negative")
	case (c.Requests == 0) != (c.Per == 0):
		return c, problem("Per", "must be set if Requests is set, and only then")
	case c.Processes < 0:
		return c, problem("Processes", "is negative")
	case c.Timeout < 0:
		return c, problem("Timeout", "is negative")
	}
	c.Requests, c.Per = cmp.Or(c.Requests, defaults.Requests), cmp.Or(c.Per, defaults.Per)
	c.Processes, c.Timeout = cmp.Or(c.Processes, defaultProcesses), cmp.Or(c.Timeout, defaultTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

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
var parts = [apikit.Priorities]int{100, 98, 95, 92, 90}

// limits contains the windows of each priority.
type limits [apikit.Priorities][]Window

// limitsOf returns the windows of a limit. Background requests have two more windows: their
// part of the limit in the period, and an equal fraction of it in each part of the period.
func limitsOf(requests int, per time.Duration) (l limits) {
	total := Window{requests, per}
	for p := range l {
		l[p] = []Window{total}
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
	waiting  [apikit.Priorities]list.List
	last     [apikit.Priorities]time.Duration // last start of each priority
}

func newQueue(requests int, per time.Duration) queue {
	return queue{begin: time.Now(), patience: turns * per / time.Duration(requests)}
}

func (q *queue) now() time.Duration { return time.Since(q.begin) }

// waiter returns a new request without adding it to the queue.
func (q *queue) waiter(ctx context.Context, now time.Duration) *waiter {
	w := &waiter{ready: make(chan struct{}), priority: apikit.PriorityOf(ctx), since: now, deadline: never}
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

// window is a ring of the starts in the last period, oldest first. Times are on the owner's
// clock.
type window struct {
	per  time.Duration
	ring []time.Duration
	head int // index of the oldest start
	n    int
}

// add records a start.
func (w *window) add(at time.Duration) {
	if w.n == len(w.ring) {
		larger := make([]time.Duration, max(16, 2*len(w.ring)))
		copied := copy(larger, w.ring[w.head:])
		copy(larger[copied:], w.ring[:w.head])
		w.ring, w.head = larger, 0
	}
	w.n++
	w.ring[w.index(w.n-1)] = at
}

// index returns the position of start i in the ring. Start 0 is the oldest.
func (w *window) index(i int) int {
	if i += w.head; i >= len(w.ring) {
		i -= len(w.ring)
	}
	return i
}

// forget removes starts that are at least one period old.
func (w *window) forget(now time.Duration) {
	for w.n > 0 && w.ring[w.head]+w.per <= now {
		w.head = w.index(1)
		w.n--
	}
}

// free returns the earliest time at which all limits permit one more start after ahead other
// starts. It returns now if they permit the start at once.
func (w *window) free(limits []Window, ahead int, now time.Duration) time.Duration {
	free := now
	for _, limit := range limits {
		at := now
		if i := w.n - limit.Starts + ahead%limit.Starts; i >= 0 {
			at = max(at, w.ring[w.index(i)]+limit.Per)
		}
		// Every limit.Starts requests ahead delay the start by limit.Per.
		free = max(free, at+time.Duration(ahead/limit.Starts)*limit.Per)
	}
	return free
}
