package oauth

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// purpose tells flights of one user apart: reading the store is cheap and is
// waited for by callers who do not need a refresh.
type purpose int

const (
	toLoad purpose = iota
	toRenew
)

// slot is what happens once at a time in a process. The store is part of it:
// one Client may serve several.
type slot struct {
	store   Store
	key     Key
	purpose purpose
}

// flight is work for one user that any number of callers wait for. It belongs
// to none of them: it runs to its end whoever leaves.
type flight struct {
	seq  uint64 // later flights of a slot have greater numbers
	done chan struct{}

	// Valid when done is closed.
	record Record
	err    error
}

// flights holds the flights under way. Entries end with their flight.
type flights struct {
	mu      sync.Mutex
	seq     uint64
	running map[slot]*flight
}

// errAbandoned is the result of a flight whose goroutine was ended from within.
var errAbandoned = errors.New("dispensary: token refresh ended without a result")

// join returns the flight of a slot, and whether it was started by this call.
// The work gets the values of ctx, but neither its end nor its deadline.
func (g *flights) join(ctx context.Context, at slot, work func(context.Context) (Record, error)) (f *flight, started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f, ok := g.running[at]; ok {
		return f, false
	}
	if g.running == nil {
		g.running = map[slot]*flight{}
	}
	g.seq++
	f = &flight{seq: g.seq, done: make(chan struct{}), err: errAbandoned}
	g.running[at] = f
	go g.fly(context.WithoutCancel(ctx), at, f, work)
	return f, true
}

func (g *flights) fly(ctx context.Context, at slot, f *flight, work func(context.Context) (Record, error)) {
	defer func() {
		if v := recover(); v != nil {
			f.record, f.err = Record{}, fmt.Errorf("dispensary: token refresh of %s: %w", at.key, panicked(v))
		}
		g.mu.Lock()
		delete(g.running, at)
		g.mu.Unlock()
		close(f.done)
	}()
	f.record, f.err = work(ctx)
}

// panicked reports a panic of a store or a transport, which must not take the
// whole program down from a goroutine in which no one can recover it. The value
// may hold anything, so only its type is told.
func panicked(value any) error { return fmt.Errorf("panic with a %T", value) }

// protect turns a panic into an error; to be deferred.
func protect(err *error) {
	if v := recover(); v != nil {
		*err = panicked(v)
	}
}

// wait returns the flight's result, or the end of ctx if that comes first.
func (f *flight) wait(ctx context.Context, key Key) (Record, error) {
	select {
	case <-f.done:
		return f.record, f.err
	case <-ctx.Done():
		return Record{}, fmt.Errorf("dispensary: gave up waiting for a token of %s: %w", key, ctx.Err())
	}
}

// underWay returns the channels of all flights.
func (g *flights) underWay() []<-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []<-chan struct{}
	for _, f := range g.running {
		all = append(all, f.done)
	}
	return all
}
