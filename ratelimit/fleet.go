package ratelimit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/internal/priority"
)

const (
	// travel is how much longer one request may take to the platform than another one.
	travel = time.Second

	// batch is the largest number of starts in one call of the store.
	batch = 20

	// rest is the number of timeouts after which a store that is away is asked again.
	rest = 5
)

// Fleet keeps the requests of all processes that share a [Store] below a number in any period
// of a given length, as they arrive at the platform. The package comment describes its
// priorities and its bounds. A Fleet needs no Close: a process that ends leaves nothing to the
// others but the requests that it has sent. It is safe for concurrent use, and an
// [api.PausingLimiter].
type Fleet struct {
	config  FleetConfig
	whole   limits        // with the store
	share   limits        // without it
	spacing time.Duration // of the requests of a process that uses its share evenly
	pause   pause

	mu       sync.Mutex
	queue    queue
	starts   window // of this process
	running  bool   // run is active
	sleeping bool
	serving  api.Priority // whose turn run waits for while it sleeps
	wake     chan struct{}
	refusals [priority.Count]refusal // the last ones of the store

	away    bool
	probing bool
	hung    int           // calls of the store that have not returned after their timeout
	probeAt time.Duration // when to ask a store that is away
	past    int           // starts that the store has not recorded
}

// refusal is a response of the store that permits no start before free.
type refusal struct{ at, free time.Duration }

var _ api.PausingLimiter = (*Fleet)(nil)

// NewFleet returns the limiter of this process. It does not call the store yet. An error is
// an [*api.ArgumentError].
func NewFleet(c FleetConfig) (*Fleet, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	per, share := c.Per+travel+c.Timeout, max(1, c.Requests/c.Processes)
	return &Fleet{
		config: c, whole: limitsOf(c.Requests, per), share: limitsOf(share, per), spacing: per / time.Duration(share),
		queue: newQueue(share, per), starts: window{per: per}, wake: make(chan struct{}, 1),
	}, nil
}

// Format prints the type only.
func (f *Fleet) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "ratelimit.Fleet") }

// Wait returns when the caller may send one request, whose priority is the one of ctx: see
// [api.ContextWithPriority]. It fails with [ErrDeadline] as soon as the process knows that ctx
// will end first: at once, or when the store has responded. A wait that is canceled before its
// turn takes no part of the limit, unless the store records it in that moment.
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

// earliest returns a time before which a new request cannot start: all processes together have
// no more starts than this one would have alone.
func (f *Fleet) earliest(p api.Priority, now time.Duration) time.Duration {
	if f.away {
		return f.queue.earliest(&f.starts, &f.share, p, now)
	}
	at := f.queue.earliest(&f.starts, &f.whole, p, now)
	if last := f.refusals[p]; now-last.at < f.longest() {
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

// now returns the time, and drops starts that do not count any more.
func (f *Fleet) now() time.Duration {
	now := f.queue.now()
	f.starts.forget(now)
	return now
}

// nudge ends the sleep of run.
func (f *Fleet) nudge() {
	if f.sleeping {
		f.sleeping = false
		f.wake <- struct{}{}
	}
}

// run starts the requests of the queue, one after the other, until none waits.
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

// withStore asks the store for starts with the limits of a priority. It returns how long to
// wait before the next call.
func (f *Fleet) withStore(w *waiter, as api.Priority) time.Duration {
	want := 1
	if as == w.priority {
		want = min(f.queue.waiting[as].Len(), batch)
	}
	f.past = min(f.past, f.starts.n)
	past := f.past
	f.mu.Unlock()
	taken, err := f.take(past, want, f.whole[as])
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
	f.refuse(as, now, now+taken.Wait)
	return f.backoff(as, taken.Wait)
}

// withoutStore does the same with the share of this process.
func (f *Fleet) withoutStore(as api.Priority) time.Duration {
	now := f.now()
	f.maybeProbe(now)
	free := f.starts.free(f.share[as], 0, now)
	if free <= now {
		f.past++
		f.start(now)
		return 0
	}
	f.refuse(as, now, free)
	if f.probeAt > now {
		free = min(free, f.probeAt)
	}
	return min(free-now, f.longest())
}

// start lets the next request start. If the request for which the store was called is canceled
// by now, another one starts.
func (f *Fleet) start(now time.Duration) {
	f.starts.add(now)
	if w, _, _ := f.queue.next(now); w != nil {
		f.queue.finish(w, nil, now)
	}
}

// refuse fails the requests whose deadlines are before free, the time of the next start of a
// priority.
func (f *Fleet) refuse(as api.Priority, now, free time.Duration) {
	for p := as; int(p) < priority.Count; p++ {
		f.refusals[p] = refusal{now, free}
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

// backoff returns when to ask the store again. Processes should not all ask for one start, so
// those that wait with background requests ask about as often as the limit permits requests.
func (f *Fleet) backoff(as api.Priority, wait time.Duration) time.Duration {
	if as == api.PriorityInteractive {
		wait += jitter.N(min(f.spacing/2, time.Second))
	} else {
		spacing := min(f.spacing, f.starts.per/spread/4)
		wait = max(wait, spacing+jitter.N(spacing))
	}
	return min(wait, f.longest())
}

// longest is the longest time between two questions to the store: it may have lost its records.
func (f *Fleet) longest() time.Duration { return f.starts.per / 20 }

// sleep waits, unless a request of a higher priority has come, or comes. It ends early if all
// requests have left, or it is the turn of another priority.
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
	if !f.sleeping { // nudged
		select {
		case <-f.wake:
		default:
		}
	}
	f.sleeping, f.serving = false, api.PriorityInteractive
}

// lose goes on without the store for a while.
func (f *Fleet) lose(err error) {
	if !f.away {
		f.away = true
		f.config.Logger.Warn("the store of the rate limit is away: the process keeps to its share",
			slog.String("name", f.config.Name), slog.Any("error", err))
	}
	pause := rest * f.config.Timeout
	f.probeAt = f.queue.now() + pause*3/4 + jitter.N(pause/2)
}

// maybeProbe calls probe if it is time to ask a store that is away.
func (f *Fleet) maybeProbe(now time.Duration) {
	if f.away && !f.probing && f.hung == 0 && now >= f.probeAt {
		f.probing = true
		f.past = min(f.past, f.starts.n)
		go f.probe(f.past)
	}
}

// probe asks the store that was away, and records the starts without it. No request waits for
// that.
func (f *Fleet) probe(past int) {
	_, err := f.take(past, 0, f.whole[api.PriorityInteractive])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probing = false
	if err != nil {
		f.lose(err)
		return
	}
	f.away, f.past = false, f.past-past
	f.refusals = [priority.Count]refusal{}
	f.config.Logger.Info("the store of the rate limit is back", slog.String("name", f.config.Name))
	f.nudge()
}

// take calls the store, and learns of the pause.
func (f *Fleet) take(past, want int, windows []Window) (taken Taken, err error) {
	taken, err = ask(f, func(ctx context.Context) (Taken, error) {
		return f.config.Store.Take(ctx, f.config.Name, past, want, windows...)
	})
	if taken.Pause > 0 {
		f.pause.extend(min(taken.Pause, maxPause))
	}
	return taken, err
}

// maxPause bounds the effect of a wrong record.
const maxPause = time.Hour

// ask calls the store, which may panic, or ignore its context.
func ask[T any](f *Fleet, call func(context.Context) (T, error)) (T, error) {
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
				r.err = fmt.Errorf("ratelimit: the store panicked with a %T", v)
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
		<-responses
		f.mu.Lock()
		defer f.mu.Unlock()
		f.hung--
	}()
	var zero T
	return zero, ctx.Err()
}

// Pause implements [api.PausingLimiter]. The other processes learn of the pause with their
// next request.
func (f *Fleet) Pause(d time.Duration) {
	if d <= 0 || !f.pause.extend(d) {
		return
	}
	go func() {
		_, err := ask(f, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, f.config.Store.Pause(ctx, f.config.Name, d)
		})
		if err != nil {
			f.config.Logger.Warn("the pause of the rate limit is not shared", slog.String("name", f.config.Name), slog.Any("error", err))
		}
	}()
}

// Paused implements [api.PausingLimiter].
func (f *Fleet) Paused() time.Duration { return f.pause.left() }
