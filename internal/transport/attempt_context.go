package transport

import (
	"context"
	"sync"
	"time"
)

// attemptContext is the context of one attempt: the context of the call, with a deadline that
// includes the response body. It derives a context of package context when a transport first
// waits for it, so an attempt that a cache or a fake serves immediately starts no timer.
//
// It replaces http.Client.Timeout, which starts a goroutine for each attempt through a wrapped
// transport.
type attemptContext struct {
	context.Context           // of the call
	deadline        time.Time // zero for no deadline

	mu      sync.Mutex
	derived context.Context // nil until a transport waits
	cancel  context.CancelFunc
	ended   bool
}

// derive returns a context with three ends: the end of the call, the deadline and the end of
// the attempt.
func (c *attemptContext) derive() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil {
		if c.deadline.IsZero() {
			c.derived, c.cancel = context.WithCancel(c.Context)
		} else {
			c.derived, c.cancel = context.WithDeadline(c.Context, c.deadline)
		}
		if c.ended {
			c.cancel()
		}
	}
	return c.derived
}

// end cancels the context permanently.
func (c *attemptContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Done implements [context.Context].
func (c *attemptContext) Done() <-chan struct{} { return c.derive().Done() }

// Err implements [context.Context].
func (c *attemptContext) Err() error { return c.derive().Err() }

// Deadline implements [context.Context].
func (c *attemptContext) Deadline() (time.Time, bool) {
	deadline, ok := c.Context.Deadline()
	if c.deadline.IsZero() || ok && deadline.Before(c.deadline) {
		return deadline, ok
	}
	return c.deadline, true
}

// Value implements [context.Context]. Package context requests the derived context through it.
// The contexts that transports derive are then canceled without a goroutine.
func (c *attemptContext) Value(key any) any {
	c.mu.Lock()
	derived := c.derived
	c.mu.Unlock()
	if derived != nil {
		return derived.Value(key)
	}
	return c.Context.Value(key)
}
