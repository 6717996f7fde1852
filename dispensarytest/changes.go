package dispensarytest

import "sync"

// Changes returns a channel that is closed with the next change on the platform: a
// request that was answered, something its people did, an attempt to deliver, a
// move of its clock, a token, a fault. It returns false once the platform is
// closed. Who shows the platform waits for it between two looks:
//
//	for next, open := fake.Changes(); open; next, open = fake.Changes() {
//		show(fake)
//		<-next
//	}
//
// The passing of time is no change: a clock that runs does so all the time.
func (s *Server) Changes() (next <-chan struct{}, open bool) { return s.changes.wait() }

// changes wakes those who watch a platform. Its lock is taken last, and costs
// little while nobody watches.
type changes struct {
	mu     sync.Mutex
	next   chan struct{} // nil while nobody waits
	closed bool
}

func (c *changes) wait() (<-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil && !c.closed {
		c.next = make(chan struct{})
	}
	return c.next, !c.closed
}

// tell says that something has changed.
func (c *changes) tell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// end says that nothing changes any more.
func (c *changes) end() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.tell()
}
