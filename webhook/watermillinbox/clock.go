package watermillinbox

import (
	"context"
	"sync"
	"time"
)

// clock tells the time of the storage, which all replicas share, without asking
// for it each time.
type clock struct {
	store Store

	mu     sync.Mutex
	offset time.Duration // from the clock of this machine
	took   time.Duration // to find that out, and so its error; 0 before
}

// set asks the storage. An answer that does not contradict what is known changes
// nothing, so that the time does not jump about with every answer that is late.
func (c *clock) set(ctx context.Context) error {
	asked := time.Now()
	now, err := c.store.Now(ctx)
	if err != nil {
		return err
	}
	took := time.Since(asked)
	offset := now.Sub(asked.Add(took / 2))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took == 0 || (offset-c.offset).Abs() > took+c.took {
		c.offset, c.took = offset, took
	}
	return nil
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *clock) micro() int64 { return c.now().UnixMicro() }
