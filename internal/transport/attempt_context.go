package transport

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// attemptTimeout returns the timeout of each attempt through an HTTP client of the
// caller: its Timeout, DefaultAttemptTimeout if that is 0, and 0 for no timeout if it is
// negative.
func attemptTimeout(given *http.Client) time.Duration {
	if given == nil || given.Timeout == 0 {
		return DefaultAttemptTimeout
	}
	return max(given.Timeout, 0)
}

// attemptContext is the context of one attempt: that of the call, with a deadline that
// covers the response body. It starts a timer only once a transport waits for it.
//
// It replaces http.Client.Timeout, which starts a goroutine for each attempt through a
// wrapped transport.
type attemptContext struct {
	context.Context           // of the call
	deadline        time.Time // zero for none

	mu     sync.Mutex
	timed  context.Context // nil until it is needed
	cancel context.CancelFunc
	ended  bool
}

// timer returns the context that ends with the call, the deadline or the attempt.
func (c *attemptContext) timer() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		if c.deadline.IsZero() {
			c.timed, c.cancel = context.WithCancel(c.Context)
		} else {
			c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		}
		if c.ended {
			c.cancel()
		}
	}
	return c.timed
}

// end stops the timer. The context stays canceled.
func (c *attemptContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Done implements [context.Context].
func (c *attemptContext) Done() <-chan struct{} { return c.timer().Done() }

// Err implements [context.Context].
func (c *attemptContext) Err() error { return c.timer().Err() }

// Deadline implements [context.Context].
func (c *attemptContext) Deadline() (time.Time, bool) {
	of, ok := c.Context.Deadline()
	if c.deadline.IsZero() || ok && of.Before(c.deadline) {
		return of, ok
	}
	return c.deadline, true
}

// Value implements [context.Context]. A started timer has to respond, so that package
// context recognizes it as the parent of contexts that transports derive.
func (c *attemptContext) Value(key any) any {
	c.mu.Lock()
	timed := c.timed
	c.mu.Unlock()
	if timed != nil {
		return timed.Value(key)
	}
	return c.Context.Value(key)
}
