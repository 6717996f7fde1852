package accounts

import (
	"container/list"
	"sync"

	"github.com/dispensary-go/dispensary/oauth"
)

// sourceKey names a user of an application.
type sourceKey struct {
	app  *application
	user string
}

// sourceCache keeps the token sources of the most recently used users. Dropping a
// source does not end it: clients that hold it go on, and all sources of a user
// share their refreshes anyway.
type sourceCache struct {
	limit int

	mu      sync.Mutex
	order   list.List // of *cachedSource, the most recently used first
	entries map[sourceKey]*list.Element
}

type cachedSource struct {
	key    sourceKey
	source *oauth.UserTokenSource
}

// get returns the source of a user, which counts as use; it makes one where none
// is cached.
func (c *sourceCache) get(key sourceKey, newSource func() *oauth.UserTokenSource) *oauth.UserTokenSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		c.order.MoveToFront(element)
		return element.Value.(*cachedSource).source
	}
	if c.entries == nil {
		c.entries = map[sourceKey]*list.Element{}
	}
	if len(c.entries) >= c.limit {
		oldest := c.order.Back()
		delete(c.entries, c.order.Remove(oldest).(*cachedSource).key)
	}
	source := newSource()
	c.entries[key] = c.order.PushFront(&cachedSource{key, source})
	return source
}

// forget makes the cached source of a user, if there is one, read the store again.
func (c *sourceCache) forget(key sourceKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		element.Value.(*cachedSource).source.Forget()
	}
}
