package tokens

import (
	"container/list"
	"sync"
	"time"
	"unique"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
)

// tokenCache stores the tokens of the most recently used users. All sources of a user share
// one entry, so a change in this process reaches every source, including sources that outlive
// the entry.
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

// put stores the token of a finished call and returns the token to use. A delayed caller does
// not overwrite the result of a later call, and an outdated call stores no token.
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
			return entry.token // another caller of the same call has stored it
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

// touch records that a token was compared with the store, or that the store did not respond.
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

// cachedToken is a token in memory with the times of its renewal.
type cachedToken struct {
	token  api.AccessToken
	renew  time.Time // from this time, a call refreshes the token in the background
	expire time.Time // from this time, callers wait for a new token
	seq    uint64    // number of the call that returned it

	// checked is the last time the token was compared with the store. It has no monotonic
	// reading, because the monotonic clock stops while a machine sleeps.
	checked time.Time
}

const (
	// checkEvery is the time for which a source uses a token without comparing it with the
	// store. It bounds the delay until a replica notices a connection or disconnection of the
	// user on another replica, even if the old token still works. The platform's limit allows 17
	// calls per second, so the store gets at most 17 reads per second.
	checkEvery = 30 * time.Second

	// checkPatience is the longest wait for the store of a caller with a valid token.
	checkPatience = 2 * time.Second
)

// expiryMargin is how early a token counts as expired, so that it is still valid when it
// reaches the platform. x/oauth2 uses the same margin.
const expiryMargin = 10 * time.Second

// newCachedToken computes the times. Both margins shrink with the lifetime of the token.
// Otherwise every call would refresh a token with a lifetime of a minute.
func newCachedToken(t oauth.Token, seq uint64) *cachedToken {
	c := &cachedToken{token: t.Access(), seq: seq, checked: time.Now().Round(0)}
	// Hundreds of thousands of tokens share a few texts.
	c.token.Environment = unique.Make(t.Environment).Value()
	c.token.Scope = unique.Make(t.Scope).Value()
	if !t.ExpiresAt.IsZero() {
		leeway := defaults.TokenLeeway
		if t.Lifetime > 0 {
			leeway = min(leeway, t.Lifetime/4)
		}
		c.renew = t.ExpiresAt.Add(-leeway)
		c.expire = t.ExpiresAt.Add(-min(expiryMargin, leeway/2))
	}
	return c
}

// unchecked reports whether the token must be compared with the store before its next use.
// This includes a wall clock that was set back.
func (c *cachedToken) unchecked(now time.Time) bool {
	age := now.Round(0).Sub(c.checked)
	return age < 0 || age >= checkEvery
}

func (c *cachedToken) fresh(now time.Time) bool { return c.renew.IsZero() || now.Before(c.renew) }
func (c *cachedToken) alive(now time.Time) bool { return c.expire.IsZero() || now.Before(c.expire) }

// valid reports whether the token has not expired. It has no margin, because a token in its
// last seconds is better than none.
func (c *cachedToken) valid(now time.Time) bool {
	return c.token.ExpiresAt.IsZero() || now.Before(c.token.ExpiresAt)
}
