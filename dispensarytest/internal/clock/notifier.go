package clock

import (
	"sync"
)

// Notifier wakes the observers of a platform. Its lock is the last in the order of locks. It
// costs little without observers.
type Notifier struct {
	mu     sync.Mutex
	next   chan struct{} // nil if no caller waits
	closed bool
}

func (c *Notifier) Wait() (<-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil && !c.closed {
		c.next = make(chan struct{})
	}
	return c.next, !c.closed
}

// Notify wakes the observers after a change.
func (c *Notifier) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Close wakes the observers a last time. No change follows.
func (c *Notifier) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Notify()
}
