package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"
	"time"
	"unique"

	"github.com/dispensary-go/dispensary/api"
)

// UserTokenSource authorizes calls as one user. It is an [api.TokenRefresher]:
// the token comes from memory while it is valid, from the store when another
// replica has renewed it, and from the platform when it has to. It is safe for
// concurrent use, small, and may be made anew for every request: refreshing is
// done once for all sources of a user, see [Client.TokenSource].
type UserTokenSource struct {
	client  *Client
	store   Store
	key     Key
	problem error // of the arguments; every call returns it
	current atomic.Pointer[held]
}

var (
	_ api.TokenRefresher = (*UserTokenSource)(nil)
	_ api.TokenReloader  = (*UserTokenSource)(nil)
)

// held is a token in memory with the times that matter.
type held struct {
	token  api.AccessToken
	renew  time.Time // from here on a new one is fetched in the background
	expire time.Time // from here on callers wait for a new one
	seq    uint64    // of the flight that brought it
}

// expiryMargin is how early a token counts as expired, so that it is still
// valid when it arrives. x/oauth2 uses the same.
const expiryMargin = 10 * time.Second

// hold works the times out. Both margins shrink with the token's life, or a
// token that lives for a minute would be renewed by every call.
func (c *Client) hold(t Token, seq uint64) *held {
	h := &held{token: t.Access(), seq: seq}
	// Hundreds of thousands of tokens have the same few texts.
	h.token.Environment = c.Environment()
	h.token.Scope = unique.Make(t.Scope).Value()
	if !t.ExpiresAt.IsZero() {
		lead := c.config.Leeway
		if t.Lifetime > 0 {
			lead = min(lead, t.Lifetime/4)
		}
		h.renew = t.ExpiresAt.Add(-lead)
		h.expire = t.ExpiresAt.Add(-min(expiryMargin, lead/2))
	}
	return h
}

func (h *held) fresh(now time.Time) bool { return h.renew.IsZero() || now.Before(h.renew) }
func (h *held) alive(now time.Time) bool { return h.expire.IsZero() || now.Before(h.expire) }

// valid uses the time up to the last moment: better that than no token.
func (h *held) valid(now time.Time) bool {
	return h.token.ExpiresAt.IsZero() || now.Before(h.token.ExpiresAt)
}

// TokenSource returns the source of the token of one of the integrator's users,
// which [Store.Save] put into store under [Client.Key]. It reads nothing yet,
// and a user who is not connected is found out by the first call: it fails with
// a [*ReauthorizeError].
//
// All sources that one Client makes for the same store and user share one
// refresh, and the sources of several processes share it through the store. The
// refresh belongs to no caller: when the ctx of a caller ends, that caller
// leaves and the refresh goes on for the others.
func (c *Client) TokenSource(store Store, user string) *UserTokenSource {
	s := &UserTokenSource{client: c, store: store, key: c.Key(user)}
	switch {
	case store == nil:
		s.problem = &api.ArgumentError{Field: "oauth.Store", Reason: "is nil"}
	case !reflect.ValueOf(store).Comparable():
		s.problem = &api.ArgumentError{Field: "oauth.Store", Reason: "is of a type that cannot be compared: use a pointer"}
	default:
		s.problem = s.key.Validate()
	}
	return s
}

// Key returns the key of the user's record.
func (s *UserTokenSource) Key() Key { return s.key }

// Forget drops the token in memory, so that the next call reads the store. Use
// it after the user was connected anew, or disconnected, in this process; other
// processes notice when the old token is refused, which [Client.Revoke] brings
// about, or when it is due for a refresh.
func (s *UserTokenSource) Forget() { s.current.Store(nil) }

// Token implements [api.TokenSource]. A valid token in memory is returned
// whatever the state of ctx, of the store and of the platform.
//
// Errors: [*ReauthorizeError]; [*ConfigError]; [*StoreError];
// [api.ErrWrongEnvironment] if the stored token is another environment's; the
// error of ctx; [*api.Error] where the platform could not be asked. After all
// but the first, a later call may succeed.
func (s *UserTokenSource) Token(ctx context.Context) (api.AccessToken, error) {
	if h := s.current.Load(); h != nil && h.fresh(time.Now()) {
		return h.token, nil
	}
	return s.obtain(ctx)
}

// Refresh implements [api.TokenRefresher]. It returns rejected itself, and sends
// nothing, where new tokens are refused as well: for a while after
// [UserTokenSource.Refused], for this user or, where it happened to several, for
// all of them. Errors are those of Token.
func (s *UserTokenSource) Refresh(ctx context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	if err := s.mine(rejected); err != nil {
		return api.AccessToken{}, err
	}
	if h := s.current.Load(); h != nil && h.token.Secret != rejected.Secret && h.alive(time.Now()) {
		return h.token, nil
	}
	if !s.client.forcing.paused(s.slot(toRenew)) {
		return s.renew(ctx, &renewal{stale: rejected.Secret})
	}
	h, err := s.load(ctx) // another process may have had more luck
	if err != nil || !h.alive(time.Now()) {
		return rejected, err
	}
	return h.token, nil
}

// Refused implements [api.TokenRefresher]. Nobody is marked: that the API does
// not take a token which the platform has just issued is not the user's doing,
// and the next refresh tells whether the user has revoked it meanwhile.
func (s *UserTokenSource) Refused(ctx context.Context, token api.AccessToken) {
	if s.mine(token) == nil {
		s.client.noteRefused(ctx, s.slot(toRenew), token.Secret)
	}
}

// Reload returns a token as Token does, after it has looked into the store: it
// finds what another process has put there, although the token in memory is
// still valid. A client asks it where the token lacks a scope, which the user may
// have granted since. Errors are those of Token.
func (s *UserTokenSource) Reload(ctx context.Context) (api.AccessToken, error) {
	if s.problem != nil {
		return api.AccessToken{}, s.problem
	}
	if _, err := s.load(ctx); err != nil {
		return api.AccessToken{}, err
	}
	return s.Token(ctx)
}

// mine refuses arguments that belong elsewhere.
func (s *UserTokenSource) mine(token api.AccessToken) error {
	if s.problem == nil && token.Environment != s.key.Environment {
		return wrongEnvironment(token.Environment, s.key.Environment)
	}
	return s.problem
}

// obtain is Token without a fresh token in memory.
func (s *UserTokenSource) obtain(ctx context.Context) (api.AccessToken, error) {
	if s.problem != nil {
		return api.AccessToken{}, s.problem
	}
	h := s.current.Load()
	if h == nil {
		var err error
		if h, err = s.load(ctx); err != nil {
			return s.retry(ctx, err)
		}
	}
	now := time.Now()
	switch {
	case h.fresh(now):
		return h.token, nil
	case h.alive(now):
		s.renewInBackground(ctx)
		return h.token, nil
	}
	token, err := s.renew(ctx, &renewal{})
	if err != nil && !needsUser(err) && !errors.Is(err, api.ErrWrongEnvironment) && h.valid(time.Now()) {
		return h.token, nil
	}
	return token, err
}

func (s *UserTokenSource) slot(p purpose) slot { return slot{s.store, s.key, p} }

// load fetches the stored token into memory.
func (s *UserTokenSource) load(ctx context.Context) (*held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at := s.slot(toLoad)
	f, _ := s.client.flights.join(ctx, at, func(ctx context.Context) (Record, error) { return s.client.load(ctx, at) })
	return s.await(ctx, f)
}

// renew waits for a token that r is content with. Where a flight is under way
// that was started for something less, it is waited for and looked at first.
func (s *UserTokenSource) renew(ctx context.Context, r *renewal) (api.AccessToken, error) {
	r.client, r.slot = s.client, s.slot(toRenew)
	for {
		if err := ctx.Err(); err != nil {
			return api.AccessToken{}, err
		}
		if problem := s.client.blocked(r.slot); problem != nil {
			// Another process may have had more luck.
			h, err := s.load(ctx)
			switch {
			case err == nil && h.token.Secret != r.stale && h.alive(time.Now()):
				return h.token, nil
			case needsUser(err):
				return api.AccessToken{}, err
			}
			return api.AccessToken{}, problem
		}
		f, own := s.client.flights.join(ctx, r.slot, r.run)
		h, err := s.await(ctx, f)
		switch {
		case err != nil:
			return api.AccessToken{}, err
		case own || (h.token.Secret != r.stale && h.alive(time.Now())):
			return h.token, nil
		}
	}
}

// renewInBackground starts a renewal that nobody waits for.
func (s *UserTokenSource) renewInBackground(ctx context.Context) {
	r := &renewal{client: s.client, slot: s.slot(toRenew)}
	if s.client.blocked(r.slot) != nil {
		return
	}
	if f, own := s.client.flights.join(ctx, r.slot, r.run); own {
		go func() { _, _ = s.await(context.WithoutCancel(ctx), f) }()
	}
}

// await waits for a flight and takes its token over, or drops the one in memory
// if only the user can bring another.
func (s *UserTokenSource) await(ctx context.Context, f *flight) (*held, error) {
	record, err := f.wait(ctx, s.key)
	if err != nil {
		if h := s.current.Load(); h != nil && h.seq <= f.seq && needsUser(err) {
			s.current.CompareAndSwap(h, nil)
		}
		return nil, err
	}
	for {
		h := s.current.Load()
		if h != nil && h.seq == f.seq {
			return h, nil // another caller of this source was here
		}
		next := s.client.hold(record.Token, f.seq)
		// A caller that was held up must not put an older token back.
		if (h != nil && h.seq > f.seq) || s.current.CompareAndSwap(h, next) {
			return next, nil
		}
	}
}

// String names the user.
func (s *UserTokenSource) String() string { return "oauth.UserTokenSource{" + s.key.String() + "}" }

// Format prints [UserTokenSource.String] for every verb.
func (s *UserTokenSource) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
