package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unique"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// users contains the tokens in memory and the running calls. A call that fetches a token also
// stores it here when it ends, so its callers only read. The zero value with a limit is ready.
type users struct {
	limit int // number of tokens in memory

	mu      sync.Mutex
	tokens  map[string]*cachedToken
	running map[callKey]*call // the calls that callers can join
	open    map[*call]callKey // all calls that have not ended
	stopped bool
}

// callKind distinguishes the calls of one user. Callers that need no refresh wait only for the
// read of the store.
type callKind int

const (
	loadCall callKind = iota
	refreshCall
	commitCall  // writes a token pair
	clinicCall  // finds the clinic of a user whose record has none
	revokeCall  // revokes the replaced grants of a record
	disposeCall // revokes a token that is in no record
)

// callKey identifies a call. A process runs one call at a time for each key.
type callKey struct {
	key   tokenstore.Key
	kind  callKind
	token api.Secret // set for a commitCall or disposeCall, because a user can have several
}

// call is work for one user. Any number of callers can wait for it. It runs to its end even if
// all of them stop waiting.
type call struct {
	began  time.Time
	done   chan struct{}
	cancel context.CancelFunc

	// pair is the token pair of a commitCall.
	pair *pendingCommit

	// Valid once done is closed. token is the token of record.
	record tokenstore.Record
	token  *cachedToken
	err    error
}

// errAbandoned is the result of a call whose goroutine ended with runtime.Goexit.
var errAbandoned = errors.New("tokens: a token refresh ended without a result")

// token returns the token of a user in memory, or nil. All sources of a user share it.
func (u *users) token(user string) *cachedToken {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.tokens[user]
}

// other returns a user other than the given one, with a valid token, or nil.
func (u *users) other(user string) (other string, token *cachedToken) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for other, token := range u.tokens {
		if other != user && token.alive(time.Now()) {
			return other, token
		}
	}
	return "", nil
}

// join returns the running call for at, or starts work as a new call. started reports whether
// it did. The work gets the values of ctx, but not its cancellation or deadline. Only stop
// cancels it.
func (u *users) join(ctx context.Context, at callKey, pair *pendingCommit, work func(context.Context) (tokenstore.Record, error)) (c *call, started bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c, ok := u.running[at]; ok {
		return c, false
	}
	if u.running == nil {
		u.running, u.open = map[callKey]*call{}, map[*call]callKey{}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c = &call{began: time.Now(), done: make(chan struct{}), cancel: cancel, pair: pair, err: errAbandoned}
	u.running[at], u.open[c] = c, at
	if u.stopped {
		cancel()
	}
	go u.run(context.WithValue(ctx, callContext{}, ctx), at, c, work)
	return c, true
}

func (u *users) run(ctx context.Context, at callKey, c *call, work func(context.Context) (tokenstore.Record, error)) {
	defer func() {
		if v := recover(); v != nil {
			c.record, c.err = tokenstore.Record{}, fmt.Errorf("tokens: token refresh of %s: %w", at.key, panicked(v))
		}
		u.end(at, c)
	}()
	c.record, c.err = work(ctx)
}

// end ends a call and stores the token that it has fetched, unless forget was called while it
// ran.
func (u *users) end(at callKey, c *call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	defer close(c.done)
	defer c.cancel()
	delete(u.open, c)
	if c.err == nil {
		c.token = newCachedToken(c.record.Token)
		if c.record.State == tokenstore.StateReauthorize {
			c.token.renew = later(c.token.renew, retryFrom(c.record))
		}
	}
	if u.running[at] != c {
		return // the result may be the token from before
	}
	delete(u.running, at)
	switch at.kind {
	case loadCall:
		u.compared(at.key.User, c)
	case refreshCall:
		delete(u.running, callKey{key: at.key, kind: loadCall}) // it may have read the token before
		switch {
		case c.err == nil:
			u.put(at.key.User, c.token)
		case needsUser(c.err) && !newCachedToken(c.record.Token).outlives(c.err):
			delete(u.tokens, at.key.User)
		}
	}
}

// compared stores the result of a read of the store. A token in memory stays if the store
// failed.
func (u *users) compared(user string, c *call) {
	token := u.tokens[user]
	switch {
	case c.err == nil:
		u.put(user, c.token)
	case needsUser(c.err), errors.Is(c.err, api.ErrWrongEnvironment):
		delete(u.tokens, user)
	case token != nil:
		next := *token
		next.checked = time.Now().Round(0)
		u.tokens[user] = &next
	}
}

// put stores a token, and drops the token of any other user beyond the limit. The caller has
// locked mu.
func (u *users) put(user string, token *cachedToken) {
	if u.tokens == nil {
		u.tokens = map[string]*cachedToken{}
	}
	u.tokens[user] = token
	for other := range u.tokens {
		if len(u.tokens) <= u.limit {
			return
		}
		if other != user {
			delete(u.tokens, other)
		}
	}
}

// forget drops the token of a user in memory after it was replaced, revoked or marked. The
// next call of every source reads the store. Running calls may return the old token: they
// store nothing, and no caller joins them.
func (u *users) forget(key tokenstore.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.tokens, key.User)
	delete(u.running, callKey{key: key, kind: loadCall})
	delete(u.running, callKey{key: key, kind: refreshCall})
}

// underWay returns the running call for at, or nil.
func (u *users) underWay(at callKey) *call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.running[at]
}

// committing returns a running commitCall of a user, or nil.
func (u *users) committing(key tokenstore.Key) *call {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c, at := range u.open {
		if at.key == key && at.kind == commitCall {
			return c
		}
	}
	return nil
}

// all returns the calls that have not ended by kind.
func (u *users) all() map[callKind][]*call {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := map[callKind][]*call{}
	for c, at := range u.open {
		all[at.kind] = append(all[at.kind], c)
	}
	return all
}

// stop cancels all calls, now and later.
func (u *users) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	for c := range u.open {
		c.cancel()
	}
}

// wait returns the error of the call, or an error if ctx ends first.
func (c *call) wait(ctx context.Context, key tokenstore.Key) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("tokens: stopped waiting for a token of %s: %w", key, ctx.Err())
	}
}

// cachedToken is a token in memory with the times of its renewal.
type cachedToken struct {
	token  api.AccessToken
	renew  time.Time // from this time, a call refreshes the token in the background
	expire time.Time // from this time, callers wait for a new token

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

	// checkPatience is how long callers with a valid token wait for a read of the store, counted
	// from its start.
	checkPatience = 2 * time.Second
)

// expiryMargin is how early a token counts as expired, so that it is still valid when it
// reaches the platform. x/oauth2 uses the same margin.
const expiryMargin = 10 * time.Second

// newCachedToken computes the times. Both margins shrink with the lifetime of the token.
// Otherwise every call would refresh a token with a lifetime of a minute.
func newCachedToken(t oauth.Token) *cachedToken {
	c := &cachedToken{token: t.Access(), checked: time.Now().Round(0)}
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

// outlives reports whether the token can be used although its user is marked: the platform
// has rejected a refresh, not this token.
func (c *cachedToken) outlives(err error) bool {
	var mark *ReauthorizeError
	return errors.As(err, &mark) && (mark.Reason == tokenstore.ReasonInvalidGrant || mark.Reason == tokenstore.ReasonOwnerChanged) &&
		!c.expire.IsZero() && c.alive(time.Now())
}

// valid reports whether the token has not expired. It has no margin, because a token in its
// last seconds is better than none.
func (c *cachedToken) valid(now time.Time) bool {
	return c.token.ExpiresAt.IsZero() || now.Before(c.token.ExpiresAt)
}
