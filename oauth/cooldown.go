package oauth

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Waits between refreshes of one user that fail for the moment. They double
// from the first to the last; a Retry-After goes before them, up to its cap.
const (
	firstCooldown  = time.Second
	lastCooldown   = 30 * time.Second
	maxRetryAfter  = 5 * time.Minute
	cooldownMemory = time.Minute // how long after its end a failure still counts
)

// cooldowns remembers the users whose last refresh failed for the moment, so
// that a platform in trouble is not asked again by every call. Entries remove
// themselves.
type cooldowns struct {
	first, last, memory time.Duration

	mu      sync.Mutex
	entries map[slot]*cooldown
}

type cooldown struct {
	err      error
	failures int
	until    time.Time
}

// blocked returns the failure that still keeps the slot from trying, or nil.
func (c *cooldowns) blocked(at slot) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.entries[at]; ok && time.Now().Before(entry.until) {
		return entry.err
	}
	return nil
}

// size counts the slots that failed lately.
func (c *cooldowns) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// clear forgets the failures of a slot.
func (c *cooldowns) clear(at slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, at)
}

// failed notes a failure and returns for how long it blocks.
func (c *cooldowns) failed(at slot, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[slot]*cooldown{}
	}
	entry := &cooldown{err: err, failures: 1}
	if before, ok := c.entries[at]; ok {
		entry.failures += before.failures
	}
	wait := backoff(entry.failures, c.first, c.last)
	var answer *api.Error
	if errors.As(err, &answer) && answer.RetryAfter > wait {
		wait = min(answer.RetryAfter, maxRetryAfter)
	}
	var unmarked *unmarkedError
	if errors.As(err, &unmarked) {
		wait = max(wait, min(time.Until(unmarked.until), maxRetryAfter))
	}
	entry.until = time.Now().Add(wait)
	c.entries[at] = entry
	time.AfterFunc(wait+c.memory, func() { c.forget(at, entry) })
	return wait
}

// forget removes an entry that no later failure has replaced.
func (c *cooldowns) forget(at slot, entry *cooldown) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries[at] == entry {
		delete(c.entries, at)
	}
}

// backoff returns a wait that doubles from first to last with the number of the
// try, counted from 1; the second half of it is random, so that replicas do not
// come at the same time.
func backoff(try int, first, last time.Duration) time.Duration {
	wait := last
	if doublings := try - 1; doublings < 20 && first<<doublings < last {
		wait = first << doublings
	}
	return wait/2 + rand.N(wait/2)
}
