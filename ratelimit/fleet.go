package ratelimit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

const (
	// travel is the maximum difference between the transfer times of two requests.
	travel = time.Second

	// batch is the maximum number of starts in one call of the store.
	batch = 20

	// rest is the number of timeouts until the next call of an unavailable store.
	rest = 3
)

// Fleet limits the requests of all processes that share a [Store] to a number in any period of
// a given length, measured at their arrival at the platform. For its priorities and limits,
// see the package comment. A Fleet needs no Close: after a process has ended, only its sent
// requests count. It is safe for concurrent use and implements [api.PausingLimiter].
type Fleet struct {
	config  FleetConfig
	total   limits        // if the store is available
	share   limits        // if the store is unavailable
	spacing time.Duration // between the requests of a process that uses its share evenly
	pause   pause

	mu         sync.Mutex
	queue      queue
	starts     window // of this process
	running    bool   // run is running
	sleeping   bool
	serving    api.Priority // priority of the request that run sleeps for
	wake       chan struct{}
	rejections [apikit.Priorities]rejection // last rejection of the store for each priority

	away    bool
	probing bool
	hung    int           // calls of the store still running after their timeout
	probeAt time.Duration // time of the next call of an unavailable store
	past    int           // starts not yet recorded in the store
}

// rejection is a response of the store without a start. The next start is possible at free.
type rejection struct{ at, free time.Duration }

var _ api.PausingLimiter = (*Fleet)(nil)

// NewFleet returns the limiter of this process. It does not call the store yet. It returns an
// [*api.ArgumentError] if c is invalid.
func NewFleet(c FleetConfig) (*Fleet, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	per, share := c.Per+travel+c.Timeout, max(1, c.Requests/c.Processes)
	return &Fleet{
		config: c, total: limitsOf(c.Requests, per), share: limitsOf(share, per), spacing: per / time.Duration(share),
		queue: newQueue(share, per), starts: window{per: per}, wake: make(chan struct{}, 1),
	}, nil
}

// Format prints only the type.
func (f *Fleet) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "ratelimit.Fleet") }

// Wait returns when the caller may send one request with the priority of ctx, see
// [api.ContextWithPriority]. If ctx will end first, Wait fails with [ErrDeadline] as soon as
// the process knows it: at once or after a response of the store. A canceled wait uses none of
// the limit, unless the store records it at the same moment.
func (f *Fleet) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := f.enter(ctx)
	if err != nil {
		return err
	}
	return w.await(ctx, f.leave)
}

func (f *Fleet) enter(ctx context.Context) (*waiter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	w := f.queue.waiter(ctx, now)
	f.maybeProbe(now)
	if f.earliest(w.priority, now) > w.deadline {
		return nil, ErrDeadline
	}
	f.queue.push(w)
	switch {
	case !f.running:
		f.running = true
		go f.run()
	case w.priority < f.serving:
		f.nudge()
	}
	return w, nil
}

// earliest returns a lower bound for the start of a new request. All processes together cannot
// be faster than this one alone.
func (f *Fleet) earliest(p api.Priority, now time.Duration) time.Duration {
	if f.away {
		return f.queue.earliest(&f.starts, &f.share, p, now)
	}
	at := f.queue.earliest(&f.starts, &f.total, p, now)
	if last := f.rejections[p]; now-last.at < f.longest() {
		at = max(at, min(last.free, f.queue.turn(p, f.queue.waiting[p].Len(), now)))
	}
	return at
}

func (f *Fleet) leave(w *waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.element == nil {
		return
	}
	f.queue.remove(w)
	if next, _, _ := f.queue.next(f.now()); next == nil {
		f.nudge()
	}
}

// now returns the current time and removes expired starts.
func (f *Fleet) now() time.Duration {
	now := f.queue.now()
	f.starts.forget(now)
	return now
}

// nudge wakes run.
func (f *Fleet) nudge() {
	if f.sleeping {
		f.sleeping = false
		f.wake <- struct{}{}
	}
}

// run starts the requests of the queue in order until the queue is empty.
func (f *Fleet) run() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		w, as, _ := f.queue.next(f.now())
		if w == nil {
			f.running = false
			return
		}
		if f.away {
			f.sleep(f.withoutStore(as), as)
		} else {
			f.sleep(f.withStore(w, as), as)
		}
	}
}

// withStore asks the store for starts within the limits of a priority. It returns the wait
// before the next call.
func (f *Fleet) withStore(w *waiter, as api.Priority) time.Duration {
	want := 1
	if as == w.priority {
		want = min(f.queue.waiting[as].Len(), batch)
	}
	f.past = min(f.past, f.starts.n)
	past := f.past
	f.mu.Unlock()
	taken, err := f.take(past, want, f.total[as])
	f.mu.Lock()
	now := f.now()
	if err != nil {
		f.lose(err)
		return 0
	}
	f.past -= past
	for range taken.Starts {
		f.start(now)
	}
	if taken.Wait <= 0 {
		return 0
	}
	f.reject(as, now, now+taken.Wait)
	return f.backoff(as, taken.Wait)
}

// withoutStore is withStore for the share of this process, without a call of the store.
func (f *Fleet) withoutStore(as api.Priority) time.Duration {
	now := f.now()
	f.maybeProbe(now)
	free := f.starts.free(f.share[as], 0, now)
	if free <= now {
		f.past++
		f.start(now)
		return 0
	}
	f.reject(as, now, free)
	if f.probeAt > now {
		free = min(free, f.probeAt)
	}
	return min(free-now, f.longest())
}

// start starts the next request. That is another one if the request of this call of the store
// has been canceled.
func (f *Fleet) start(now time.Duration) {
	f.starts.add(now)
	if w, _, _ := f.queue.next(now); w != nil {
		f.queue.finish(w, nil, now)
	}
}

// reject fails the requests of a priority and of lower ones if their deadline is before free,
// the time of the next start.
func (f *Fleet) reject(as api.Priority, now, free time.Duration) {
	for p := as; int(p) < apikit.Priorities; p++ {
		f.rejections[p] = rejection{now, free}
		position := 0
		for e := f.queue.waiting[p].Front(); e != nil; {
			w := e.Value.(*waiter)
			e = e.Next()
			if w.deadline < min(free, f.queue.turn(p, position, now)) {
				f.queue.finish(w, ErrDeadline, now)
			} else {
				position++
			}
		}
	}
}

// backoff returns the wait before the next call of the store. If all processes asked for each
// start, most calls would be useless. Processes with background requests therefore ask about
// as often as the limit permits requests.
func (f *Fleet) backoff(as api.Priority, wait time.Duration) time.Duration {
	if as == api.PriorityInteractive {
		wait += jitter.N(min(f.spacing/2, time.Second))
	} else {
		spacing := min(f.spacing, f.starts.per/spread/4)
		wait = max(wait, spacing+jitter.N(spacing))
	}
	return min(wait, f.longest())
}

// longest is the maximum time between two calls of the store, because the store may have lost
// its records.
func (f *Fleet) longest() time.Duration { return f.starts.per / 20 }

// sleep waits for d unless a request of a higher priority waits or arrives. It ends early if
// the queue becomes empty or another priority has its turn.
func (f *Fleet) sleep(d time.Duration, as api.Priority) {
	w, next, turn := f.queue.next(f.now())
	if d <= 0 || w == nil || next < as {
		return
	}
	if as != api.PriorityInteractive {
		d = min(d, turn-f.queue.now())
	}
	f.sleeping, f.serving = true, as
	f.mu.Unlock()
	timer := time.NewTimer(d)
	select {
	case <-timer.C:
	case <-f.wake:
		timer.Stop()
	}
	f.mu.Lock()
	if !f.sleeping { // woken by nudge
		select {
		case <-f.wake:
		default:
		}
	}
	f.sleeping, f.serving = false, api.PriorityInteractive
}

// lose continues without the store and schedules the next call.
func (f *Fleet) lose(err error) {
	if !f.away {
		f.away = true
		f.config.Logger.Warn("rate limit store is unavailable; limiting this process to its share",
			slog.String("name", f.config.Name), slog.Any("error", err))
	}
	pause := rest * f.config.Timeout
	f.probeAt = f.queue.now() + pause*3/4 + jitter.N(pause/2)
}

// maybeProbe starts a probe if the next call of an unavailable store is due.
func (f *Fleet) maybeProbe(now time.Duration) {
	if f.away && !f.probing && f.hung == 0 && now >= f.probeAt {
		f.probing = true
		f.past = min(f.past, f.starts.n)
		go f.probe(f.past)
	}
}

// probe calls an unavailable store and records the starts since. No request waits for it.
func (f *Fleet) probe(past int) {
	_, err := f.take(past, 0, f.total[api.PriorityInteractive])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probing = false
	f.nudge() // waiting requests may start now, or must wait for another probe
	if err != nil {
		f.lose(err)
		return
	}
	f.away, f.past = false, f.past-past
	f.rejections = [apikit.Priorities]rejection{}
	f.config.Logger.Info("rate limit store is available again", slog.String("name", f.config.Name))
}

// take calls the store and applies its pause. A response after the timeout has recorded starts
// that no request waits for. They count for the starts without the store since, unless it is so
// late that the records may be lost.
func (f *Fleet) take(past, want int, windows []Window) (taken Taken, err error) {
	called := f.queue.now()
	taken, err = ask(f, func(ctx context.Context) (Taken, error) {
		return f.config.Store.Take(ctx, f.config.Name, past, want, windows...)
	}, func(late Taken) {
		if f.queue.now()-called < f.longest() {
			f.past = max(0, f.past-past-late.Starts)
		}
	})
	if taken.Pause > 0 {
		f.pause.extend(min(taken.Pause, maxPause))
	}
	return taken, err
}

// maxPause limits the effect of a wrong record.
const maxPause = time.Hour

// ask calls the store. It handles a store that panics or ignores its context. If the store
// responds after the timeout, ask passes the response to late, which runs under the lock.
func ask[T any](f *Fleet, call func(context.Context) (T, error), late func(T)) (T, error) {
	type response struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.config.Timeout)
	defer cancel()
	responses := make(chan response, 1)
	go func() {
		var r response
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("ratelimit: store panicked with a %T", v)
			}
			responses <- r
		}()
		r.value, r.err = call(ctx)
	}()
	select {
	case r := <-responses:
		return r.value, r.err
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.hung++
	f.mu.Unlock()
	go func() {
		r := <-responses
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hung--
		f.nudge() // a probe may be due
		if r.err == nil {
			late(r.value)
		}
	}()
	var zero T
	return zero, ctx.Err()
}

// Pause implements [api.PausingLimiter]. The other processes load the pause with their next
// request.
func (f *Fleet) Pause(d time.Duration) {
	if d <= 0 || !f.pause.extend(d) {
		return
	}
	go func() {
		_, err := ask(f, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, f.config.Store.Pause(ctx, f.config.Name, d)
		}, func(struct{}) {})
		if err != nil {
			f.config.Logger.Warn("cannot share the rate limit pause with other processes", slog.String("name", f.config.Name), slog.Any("error", err))
		}
	}()
}

// Paused implements [api.PausingLimiter].
func (f *Fleet) Paused() time.Duration { return f.pause.left() }
