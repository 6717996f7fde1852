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
	if cached := s.conns.users.token(s.key.User); cached != nil && cached.fresh(now) && !cached.unchecked(now) {
		return cached.token, nil
	}
	return s.fetch(ctx)
}

// Refresh implements [api.TokenRefresher]. A 401 forces at most one refresh of a user in 2
// minutes. In between, Refresh returns the token in the store, or rejected itself if the store
// has no other: new tokens are rejected as well. A 401 marks the user only if the token
// endpoint then rejects the refresh token. Errors are those of Token.
func (s TokenSource) Refresh(ctx context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	if rejected.Environment != s.key.Environment {
		return api.AccessToken{}, wrongEnvironment(rejected.Environment, s.key.Environment)
	}
	if cached := s.conns.users.token(s.key.User); cached != nil && cached.token.Secret != rejected.Secret && cached.alive(time.Now()) {
		return cached.token, nil
	}
	if s.conns.brakes.mayForce(s.key) || s.conns.users.underWay(callKey{key: s.key, kind: refreshCall}) != nil {
		return s.refresh(ctx, &refreshTask{stale: rejected.Secret})
	}
	c, err := s.load(ctx) // another process may have a good token
	switch {
	case err != nil:
		return api.AccessToken{}, err
	case c.token.token.Secret != rejected.Secret && c.token.alive(time.Now()):
		return c.token.token, nil
	}
	return rejected, s.conns.validate(c.record)
}

// Reload reads the store and then returns a token as Token does. It finds a token that another
// process has stored, even if the token in memory is still valid. A client calls it if the
// token lacks a scope that the user may have granted since. Errors are those of Token.
func (s TokenSource) Reload(ctx context.Context) (api.AccessToken, error) {
	if _, err := s.load(ctx); err != nil {
		return api.AccessToken{}, err
	}
	return s.Token(ctx)
}

// fetch is the part of Token without a fresh and recently checked token in memory.
func (s TokenSource) fetch(ctx context.Context) (api.AccessToken, error) {
	r := &refreshTask{}
	cached, err := s.current(ctx, r)
	if err != nil {
		return s.retryMarked(ctx, err)
	}
	now := time.Now()
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

// current returns the token in memory after comparing it with the store, if that is due, or
// the token in the store. A caller with a token in memory waits only briefly: the read goes on
// and stores its result.
func (s TokenSource) current(ctx context.Context, r *refreshTask) (*cachedToken, error) {
	cached := s.conns.users.token(s.key.User)
	switch {
	case cached == nil:
		c, err := s.load(ctx)
		if err != nil {
			return nil, err
		}
		r.loaded = &c.record
		return c.token, nil
	case !cached.unchecked(time.Now()):
		return cached, nil
	}
	c := s.loading(ctx)
	waiting, cancel := context.WithDeadline(ctx, c.began.Add(checkPatience))
	defer cancel()
	err := c.wait(waiting, s.key)
	switch {
	case err == nil:
		return c.token, nil
	case needsUser(err), errors.Is(err, api.ErrWrongEnvironment):
		return nil, err
	}
	return cached, nil
}

// retryMarked returns the token of a marked user. It retries the refresh token if a retry is
// due, and otherwise returns mark.
func (s TokenSource) retryMarked(ctx context.Context, mark error) (api.AccessToken, error) {
	if !mayRetry(mark) || s.conns.brakes.blocked(s.key) != nil {
		return api.AccessToken{}, mark
	}
	token, err := s.refresh(ctx, &refreshTask{})
	if err != nil && !needsUser(err) && ctx.Err() == nil {
		err = mark
	}
	return token, err
}

// load reads the stored token into memory.
func (s TokenSource) load(ctx context.Context) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := s.loading(ctx)
	return c, c.wait(ctx, s.key)
}

// loading returns a call that reads the stored token.
func (s TokenSource) loading(ctx context.Context) *call {
	c, _ := s.conns.users.join(ctx, callKey{key: s.key, kind: loadCall}, nil, func(ctx context.Context) (tokenstore.Record, error) {
		record, err := s.conns.load(ctx, s.key)
		switch {
		case err == nil:
			s.conns.revokeReplacedLater(ctx, record)
		case newCachedToken(record.Token).outlives(err):
			err = nil
		}
		return record, err
	})
	return c
}

// refresh waits for a token that satisfies r. If another call for a lesser need is running, it
// waits for that call and checks its result first.
func (s TokenSource) refresh(ctx context.Context, r *refreshTask) (api.AccessToken, error) {
	r.conns, r.key = s.conns, s.key
	for {
		if err := ctx.Err(); err != nil {
			return api.AccessToken{}, err
		}
		if blocked := s.conns.brakes.blocked(s.key); blocked != nil && !r.confirms(blocked) {
			// Another process may have stored a new token.
			c, err := s.load(ctx)
			switch {
			case err == nil && c.token.token.Secret != r.stale && c.token.alive(time.Now()):
				return c.token.token, nil
			case err == nil:
				err = s.conns.validate(c.record)
			}
			if needsUser(err) {
				return api.AccessToken{}, err
			}
			return api.AccessToken{}, blocked
		}
		c, started := s.conns.users.join(ctx, callKey{key: s.key, kind: refreshCall}, nil, r.run)
		switch err := c.wait(ctx, s.key); {
		case !started && r.confirms(err):
		case err != nil:
			return api.AccessToken{}, err
		case started || (c.token.token.Secret != r.stale && c.token.alive(time.Now())):
			return c.token.token, nil
		}
		r.loaded = nil // outdated by the call that has just ended
	}
}

// refreshInBackground starts a refresh without a waiting caller.
func (s TokenSource) refreshInBackground(ctx context.Context, r *refreshTask) {
	r.conns, r.key = s.conns, s.key
	if s.conns.brakes.blocked(s.key) != nil {
		return
	}
	s.conns.users.join(ctx, callKey{key: s.key, kind: refreshCall}, nil, r.run)
}

// String names the user.
func (s TokenSource) String() string { return "tokens.TokenSource{" + s.key.String() + "}" }

// Format prints [TokenSource.String] for every verb.
func (s TokenSource) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
