package tokens

import (
	"container/list"
	"sync"
	"time"
)

// tokenCache stores the tokens of the most recently used users, one for all sources of
// a user: a change in this process reaches each of them, including sources that live
// longer than the entry.
type tokenCache struct {
	limit int

	mu      sync.Mutex
	order   list.List // of *cacheEntry, the most recently used first
	entries map[string]*list.Element
}

type cacheEntry struct {
	user  string
	token *cachedToken
}

// get returns the token of a user, or nil.
func (c *tokenCache) get(user string) *cachedToken {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[user]
	if !ok {
		return nil
	}
	c.order.MoveToFront(element)
	return element.Value.(*cacheEntry).token
}

// put stores the token that a call returned and returns the token to use. A caller that
// was held up does not overwrite the result of a later call, and a call that is
// outdated stores no token.
func (c *tokenCache) put(user string, from *call, next *cachedToken) *cachedToken {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from.outdated.Load() { // set before remove takes the lock
		return next
	}
	if element, ok := c.entries[user]; ok {
		entry := element.Value.(*cacheEntry)
		switch {
		case entry.token.seq == from.seq:
			return entry.token // another caller of the same call was here
		case entry.token.seq < from.seq:
			entry.token = next
			c.order.MoveToFront(element)
		}
		return next
	}
	if c.entries == nil {
		c.entries = map[string]*list.Element{}
	}
	if len(c.entries) >= c.limit {
		delete(c.entries, c.order.Remove(c.order.Back()).(*cacheEntry).user)
	}
	c.entries[user] = c.order.PushFront(&cacheEntry{user, next})
	return next
}

// touch notes that a token was compared with the store, or that the store does not respond.
func (c *tokenCache) touch(user string, token *cachedToken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[user]; ok && element.Value.(*cacheEntry).token == token {
		next := *token
		next.checked = time.Now().Round(0)
		element.Value.(*cacheEntry).token = &next
	}
}

// remove drops the token of a user, unless a call after upTo stored it.
func (c *tokenCache) remove(user string, upTo uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[user]; ok && element.Value.(*cacheEntry).token.seq <= upTo {
		c.order.Remove(element)
		delete(c.entries, user)
	}
}
