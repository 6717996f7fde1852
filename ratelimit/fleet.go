package ratelimit

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Defaults of a [FleetConfig]. The limit is what the platform is assumed to allow; it does
// not document it.
const (
	DefaultRequests  = 5000
	DefaultPer       = 5 * time.Minute
	DefaultProcesses = 10
)

// FleetConfig is what a [Fleet] is made of. Store is required.
type FleetConfig struct {
	// Store is where the processes find each other.
	Store Store

	// Name is that of the limit: processes whose fleets have one store and one name share
	// it. The application's limit is another one in each environment. Empty is a name too.
	Name string

	// Requests is how many requests all processes may send in any period of Per, by the
	// platform's clock; 0 means [DefaultRequests] and [DefaultPer]. They have to be the same
	// in all processes.
	Requests int
	Per      time.Duration

	// Processes is how many processes there are at most, as far as is known. A process that
	// starts has a share of one in so many; so has one that has not reached the store for
	// two periods, where it does not know of more. 0 means [DefaultProcesses].
	Processes int

	// Logger logs when the store goes away, and when it is back. Nil logs nothing.
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
		return c, problem("Per", "has to be set where Requests is, and only there")
	case c.Processes < 0:
		return c, problem("Processes", "is negative")
	}
	c.Requests, c.Per = cmp.Or(c.Requests, DefaultRequests), cmp.Or(c.Per, DefaultPer)
	c.Processes = cmp.Or(c.Processes, DefaultProcesses)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

const (
	// travel is how much longer one request may take to the platform than another after Wait:
	// requests that were apart at one end may be closer at the other.
	travel = time.Second

	// storeTimeout is the longest time of an exchange.
	storeTimeout = 2 * time.Second

	// pooled is the part of the limit that background work does not take from the store:
	// one in so many. A process whose people need more at once finds it there.
	pooled = 50

	// perExchange is how many requests of the fleet there are to one exchange, at least,
	// where all of the limit is used.
	perExchange = 80

	// fleetBurst is how much of its quota the background of a process takes faster than its
	// pace: one in so many. What is taken in a burst is not there a period later.
	fleetBurst = 50

	// keep is how long a store keeps a record.
	keep = 24 * time.Hour
)

// Fleet keeps the requests of all processes that share a [Store] below a number in any period
// of a given length, as they arrive at the platform. It is safe for concurrent use, and an
// [api.PausingLimiter]. The package comment says how it works, and what it relies on.
type Fleet struct {
	config FleetConfig
	local  *Limiter
	lease  time.Duration // how long a quota lasts without the store
	hold   time.Duration // how long the quota of a process that is silent is left to it

	mu        sync.Mutex
	process   string
	joined    chan struct{} // closed when the first exchange has ended; nil before it began
	running   chan struct{} // closed when the exchange that is under way has ended; nil for none
	again     bool          // another one has to follow
	closed    bool
	away      bool
	tried     time.Time // when the last exchange began
	reached   time.Time // when the last one began that succeeded
	connected time.Time // since when the store is reached, but for short times
	urgent    time.Time // from when on one who waits causes an exchange
	patience  time.Duration
	timer     *time.Timer

	quota   int
	reserve int
	pause   time.Time
	offset  time.Duration // of the store's clock
	seen    int           // processes, this one included
	eager   bool          // there should be more for this process soon
	aim     int           // how much that is, all in all
	peers   map[string]*peer
}

var _ api.PausingLimiter = (*Fleet)(nil)

// NewFleet returns the limiter of this process. It asks the store for nothing yet. An error is
// an [*api.ArgumentError].
func NewFleet(c FleetConfig) (*Fleet, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	f := &Fleet{config: c, local: newLimiter(c.Per + travel), process: rand.Text(), patience: time.Second, peers: map[string]*peer{}}
	f.lease, f.hold = c.Per*2/5, 2*c.Per
	f.local.elastic, f.local.burst, f.local.closed = true, fleetBurst, make(chan struct{})
	f.local.blocked = func() { go f.hurry() }
	return f, nil
}

// Format prints the type only.
func (f *Fleet) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "ratelimit.Fleet") }

// Wait returns when the caller may send one request, whose priority is that of ctx; see
// [api.ContextWithPriority]. The first one waits for the store, for 2 seconds at most. A wait
// that is cancelled before its turn takes nothing from the limit.
func (f *Fleet) Wait(ctx context.Context) error {
	joined, err := f.join()
	if err != nil {
		return err
	}
	select {
	case <-joined:
	case <-ctx.Done():
		return ctx.Err()
	case <-f.local.closed: // while it was leaving: it does not join any more
		return ErrClosed
	}
	return f.local.Wait(ctx)
}

// join sees to it that the process takes part, and returns what is closed once it does. A
// process that slept for so long that others may have its quota has to ask again.
func (f *Fleet) join() (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil, ErrClosed
	case f.joined == nil || isClosed(f.joined) && time.Since(f.tried) > f.config.Per:
		f.joined = make(chan struct{})
		f.exchange()
	}
	return f.joined, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close gives up what the process may send: after it Wait fails with [ErrClosed]. Without it
// the others leave the process its share for two periods. An error is that of the store, or
// of ctx.
func (f *Fleet) Close(ctx context.Context) error {
	f.mu.Lock()
	running, never := f.running, f.joined == nil
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.local.closed)
	f.mu.Unlock()
	if running != nil {
		select {
		case <-running:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	if never {
		return nil
	}
	_, err := f.ask(ctx, f.goodbye())
	return err
}

// Pause implements [api.PausingLimiter]. The other processes hear of it.
func (f *Fleet) Pause(d time.Duration) {
	f.local.Pause(d)
	f.mu.Lock()
	defer f.mu.Unlock()
	until := time.Now().Add(d)
	if d <= 0 || !until.After(f.pause.Add(time.Second)) {
		return
	}
	f.pause = until
	if f.joined != nil && !f.closed {
		f.exchange()
	}
}

// Paused implements [api.PausingLimiter].
func (f *Fleet) Paused() time.Duration { return f.local.Paused() }
