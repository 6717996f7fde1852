package accounts

import (
	"sync"

	"github.com/dispensary-go/dispensary/oauth"
)

// sourceKey names a user of an application.
type sourceKey struct {
	app  *application
	user string
}

// sourceCache keeps the token sources of the users who were used last. What is
// dropped is not ended: whoever has a client of that user goes on, and refreshing
// is done once for all sources of a user.
type sourceCache struct {
	limit int

	mu      sync.Mutex
	entries map[sourceKey]*sourceEntry
	newest  *sourceEntry // the ring's head; its older neighbour is the last
}

// sourceEntry is an element of a ring in order of use.
type sourceEntry struct {
	key          sourceKey
	source       *oauth.UserTokenSource
	newer, older *sourceEntry
}

// get returns the source of a user, which counts as use, or nil.
func (c *sourceCache) get(key sourceKey) *oauth.UserTokenSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	if !ok {
		return nil
	}
	if entry != c.newest {
		c.unlink(entry)
		c.link(entry)
	}
	return entry.source
}

// put keeps a source and returns it, or the one that somebody else has put
// meanwhile.
func (c *sourceCache) put(key sourceKey, source *oauth.UserTokenSource) *oauth.UserTokenSource {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.entries[key]; ok {
		return entry.source
	}
	if c.entries == nil {
		c.entries = map[sourceKey]*sourceEntry{}
	}
	if len(c.entries) >= c.limit {
		last := c.newest.newer
		c.unlink(last)
		delete(c.entries, last.key)
	}
	entry := &sourceEntry{key: key, source: source}
	c.entries[key] = entry
	c.link(entry)
	return source
}

// forget makes the source of a user, if it is here, look into the store again.
func (c *sourceCache) forget(key sourceKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry, ok := c.entries[key]; ok {
		entry.source.Forget()
	}
}

// link puts an entry in front.
func (c *sourceCache) link(entry *sourceEntry) {
	if c.newest == nil {
		entry.newer, entry.older = entry, entry
	} else {
		entry.older, entry.newer = c.newest, c.newest.newer
		entry.older.newer, entry.newer.older = entry, entry
	}
	c.newest = entry
}

// unlink takes an entry out. It is the newest only where it is the only one.
func (c *sourceCache) unlink(entry *sourceEntry) {
	if c.newest == entry {
		c.newest = nil
	}
	entry.newer.older, entry.older.newer = entry.older, entry.newer
}
