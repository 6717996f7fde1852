package clock

import (
	"sync"
)

// Notifier wakes what watches a platform. Its lock is taken last, and costs
// little while nothing watches.
type Notifier struct {
	mu     sync.Mutex
	next   chan struct{} // nil while nothing waits
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

// Notify says that something has changed.
func (c *Notifier) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Close says that nothing changes any more.
func (c *Notifier) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Notify()
}
