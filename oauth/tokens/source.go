package tokens

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// TokenSource authorizes calls as one user. It implements [api.TokenRefresher]. The token
// comes from memory while it is valid, from the store if another replica has refreshed it, and
// otherwise from the platform. A TokenSource is safe for concurrent use, small, and can be
// created for every request: all sources of a user share one token in memory and one refresh,
// see [Connections.TokenSource]. Sources of one user compare equal, so a client can
// distinguish users.
type TokenSource struct {
	conns *Connections
	key   tokenstore.Key
}

var _ api.TokenRefresher = TokenSource{}

// TokenSource returns the token source of one of your users. It does not read the store. If
// the user is not connected, the first call fails with a [*ReauthorizeError].
//
// All sources of a user share one refresh, and several processes share it through the store.
// The refresh belongs to no caller. If the ctx of a caller ends, that caller returns and the
// refresh continues for the others.
func (c *Connections) TokenSource(user string) TokenSource {
	return TokenSource{conns: c, key: c.Key(user)}
}

// Key returns the key of the user's record.
func (s TokenSource) Key() tokenstore.Key { return s.key }

// Token implements [api.TokenSource]. It returns a valid token in memory regardless of ctx,
// the store and the platform. Every 30 seconds Token compares the token with the store first
// and waits up to 2 seconds for that, because another replica may have connected the user with
// another account or disconnected the user.
//
// Errors:
//
//   - [*ReauthorizeError]: the user must authorize again.
//   - [*api.ArgumentError]: user is invalid.
//   - [*oauth.ConfigError]: the platform rejects the application.
//   - [*StoreError]: the store failed.
//   - [api.ErrWrongEnvironment]: the stored token is for another environment.
//   - [*api.Error]: the platform failed or is unreachable.
//   - The error of ctx.
//
// After all errors but the first two, a later call may succeed.
func (s TokenSource) Token(ctx context.Context) (api.AccessToken, error) {
	now := time.Now()
	if cached := s.conns.cache.get(s.key.User); cached != nil && cached.fresh(now) && !cached.unchecked(now) {
		return cached.token, nil
	}
	return s.fetch(ctx)
}

// Refresh implements [api.TokenRefresher]. A 401 forces at most one refresh of a user in 2
// minutes. In between, Refresh returns the token in the store, or rejected itself if the store
// has no other: new tokens are rejected as well. This marks no user, because only the token
// endpoint knows whether a user has revoked the application. Errors are those of Token.
func (s TokenSource) Refresh(ctx context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	if rejected.Environment != s.key.Environment {
		return api.AccessToken{}, wrongEnvironment(rejected.Environment, s.key.Environment)
	}
	if cached := s.conns.cache.get(s.key.User); cached != nil && cached.token.Secret != rejected.Secret && cached.alive(time.Now()) {
		return cached.token, nil
	}
	if s.conns.circuit.mayForce(s.key) || s.conns.calls.underWay(callKey{key: s.key, kind: refreshCall}) != nil {
		return s.refresh(ctx, &refreshTask{stale: rejected.Secret})
	}
	cached, _, err := s.load(ctx) // another process may have a good token
	if err != nil || !cached.alive(time.Now()) {
		return rejected, err
	}
	return cached.token, nil
}

// Reload reads the store and then returns a token as Token does. It finds a token that another
// process has stored, even if the token in memory is still valid. A client calls it if the
// token lacks a scope that the user may have granted since. Errors are those of Token.
func (s TokenSource) Reload(ctx context.Context) (api.AccessToken, error) {
	if _, _, err := s.load(ctx); err != nil {
		return api.AccessToken{}, err
	}
	return s.Token(ctx)
}

// fetch is the part of Token without a fresh and recently checked token in memory.
func (s TokenSource) fetch(ctx context.Context) (api.AccessToken, error) {
	r := &refreshTask{}
	now := time.Now()
	cached := s.conns.cache.get(s.key.User)
	switch {
	case cached == nil:
		var record tokenstore.Record
		var err error
		if cached, record, err = s.load(ctx); err != nil {
			return s.retryMarked(ctx, err)
		}
		r.loaded = &record
	case cached.unchecked(now):
		var err error
		if cached, err = s.check(ctx, cached); err != nil {
			return s.retryMarked(ctx, err)
		}
	}
	now = time.Now()
	switch {
	case cached.fresh(now):
		return cached.token, nil
	case cached.alive(now):
		s.refreshInBackground(ctx, r)
		return cached.token, nil
	}
	token, err := s.refresh(ctx, r)
	if err != nil && !needsUser(err) && !errors.Is(err, api.ErrWrongEnvironment) && cached.valid(time.Now()) {
		return cached.token, nil
	}
	return token, err
}

// check compares a token in memory with the store and returns the token to use. It returns
// cached itself if the store does not respond. It also does so if the user is marked but has
// no other token, because the mark means that a refresh was rejected, not this token.
func (s TokenSource) check(ctx context.Context, cached *cachedToken) (*cachedToken, error) {
	waiting, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	c, err := s.loading(waiting)
	if err != nil {
		s.keepUnchecked(ctx, cached)
		return cached, nil
	}
	record, err := c.wait(waiting, s.key)
	var marked *ReauthorizeError
	switch {
	case err == nil:
		next, _, err := s.await(context.WithoutCancel(ctx), c)
		return next, err
	case errors.As(err, &marked) && (record.Token.AccessToken != cached.token.Secret || marked.Reason == tokenstore.ReasonDisconnecting),
		errors.Is(err, api.ErrWrongEnvironment):
		_, _, err := s.await(context.WithoutCancel(ctx), c)
		return nil, err
	}
	s.keepUnchecked(ctx, cached)
	return cached, nil
}

// keepUnchecked lets calls use an unchecked token until the next check is due. It does nothing
// if the caller's own context has ended, because this shows nothing about the store.
func (s TokenSource) keepUnchecked(ctx context.Context, cached *cachedToken) {
	if ctx.Err() == nil {
		s.conns.cache.touch(s.key.User, cached)
	}
}

// retryMarked returns the token of a marked user. It retries the refresh token if a retry is
// due, and otherwise returns mark.
func (s TokenSource) retryMarked(ctx context.Context, mark error) (api.AccessToken, error) {
	var marked *ReauthorizeError
	if !errors.As(mark, &marked) || marked.retryFrom.IsZero() || time.Now().Before(marked.retryFrom) ||
		s.conns.circuit.blocked(s.key) != nil {
		return api.AccessToken{}, mark
	}
	token, err := s.refresh(ctx, &refreshTask{retryMarked: true})
	if err != nil && !needsUser(err) && ctx.Err() == nil {
		err = mark
	}
	return token, err
}

// load reads the stored token into memory.
func (s TokenSource) load(ctx context.Context) (*cachedToken, tokenstore.Record, error) {
	c, err := s.loading(ctx)
	if err != nil {
		return nil, tokenstore.Record{}, err
	}
	return s.await(ctx, c)
}

// loading returns a call that reads the stored token.
func (s TokenSource) loading(ctx context.Context) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, _, err := s.join(ctx, loadCall, func(ctx context.Context) (tokenstore.Record, error) {
		record, err := s.conns.load(ctx, s.key)
		if err == nil {
			s.conns.revokeReplacedLater(ctx, record)
		}
		return record, err
	})
	return c, err
}

// join returns a call that is not outdated. It waits for an outdated call, which may return
// the token from before the user reconnected.
func (s TokenSource) join(ctx context.Context, kind callKind, work func(context.Context) (tokenstore.Record, error)) (c *call, started bool, err error) {
	for {
		c, started = s.conns.calls.join(ctx, callKey{key: s.key, kind: kind}, nil, work)
		if started || !c.outdated.Load() {
			return c, started, nil
		}
		if _, err := c.wait(ctx, s.key); err != nil && ctx.Err() != nil {
			return nil, false, err
		}
	}
}

// refresh waits for a token that satisfies r. If another call for a lesser need is running, it
// waits for that call and checks its result first.
func (s TokenSource) refresh(ctx context.Context, r *refreshTask) (api.AccessToken, error) {
	r.conns, r.key = s.conns, s.key
	for {
		if err := ctx.Err(); err != nil {
			return api.AccessToken{}, err
		}
		if blocked := s.conns.circuit.blocked(s.key); blocked != nil {
			// Another process may have stored a new token.
			cached, _, err := s.load(ctx)
			switch {
			case err == nil && cached.token.Secret != r.stale && cached.alive(time.Now()):
				return cached.token, nil
			case needsUser(err):
				return api.AccessToken{}, err
			}
			return api.AccessToken{}, blocked
		}
		c, started, err := s.join(ctx, refreshCall, r.run)
		if err != nil {
			return api.AccessToken{}, err
		}
		cached, _, err := s.await(ctx, c)
		switch {
		case err != nil:
			return api.AccessToken{}, err
		case started || (cached.token.Secret != r.stale && cached.alive(time.Now())):
			return cached.token, nil
		}
		r.loaded = nil // outdated by the call that has just ended
	}
}

// refreshInBackground starts a refresh without a waiting caller.
func (s TokenSource) refreshInBackground(ctx context.Context, r *refreshTask) {
	r.conns, r.key = s.conns, s.key
	if s.conns.circuit.blocked(s.key) != nil {
		return
	}
	ctx = api.ContextWithPriority(ctx, api.PriorityRefresh)
	if c, started := s.conns.calls.join(ctx, callKey{key: s.key, kind: refreshCall}, nil, r.run); started {
		go func() { _, _, _ = s.await(context.WithoutCancel(ctx), c) }()
	}
}

// await waits for a call and caches its token. If only the user can provide another token,
// await drops the cached one.
func (s TokenSource) await(ctx context.Context, c *call) (*cachedToken, tokenstore.Record, error) {
	record, err := c.wait(ctx, s.key)
	if err != nil {
		if needsUser(err) {
			s.conns.cache.remove(s.key.User, c.seq)
		}
		return nil, tokenstore.Record{}, err
	}
	return s.conns.cache.put(s.key.User, c, newCachedToken(record.Token, c.seq)), record, nil
}

// String names the user.
func (s TokenSource) String() string { return "tokens.TokenSource{" + s.key.String() + "}" }

// Format prints [TokenSource.String] for every verb.
func (s TokenSource) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
