package tokens

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Waits between attempts to revoke a token that is in no record.
const (
	firstDisposal = time.Second
	lastDisposal  = 5 * time.Minute
)

// disposal is a token that this process has received and that may be in no record. It ends
// when the token is stored, kept as a replaced grant, or revoked.
type disposal struct {
	conns *Connections
	key   tokenstore.Key
	token oauth.Token

	// stored is called if the record contains the token after all. Nil if the token cannot be in
	// the record.
	stored func(context.Context, tokenstore.Record)

	// keep adds the token to the record of an active user of the same account. It is set for a
	// pair of a refresh. If it is false, the token is revoked whether or not the record has a
	// grant of the same account.
	keep bool
}

// now disposes of the token in the background, and waits for it briefly.
func (d *disposal) now(ctx context.Context) {
	ctx, cancel := detach(ctx, d.conns.config.responseTime())
	defer cancel()
	_ = d.later(ctx).wait(ctx, d.key)
}

// later disposes of the token in the background, and [Connections.Close] waits for it.
func (d *disposal) later(ctx context.Context) *call {
	c, _ := d.conns.users.join(ctx, callKey{key: d.key, kind: disposeCall, token: d.token.AccessToken}, nil, func(ctx context.Context) (tokenstore.Record, error) {
		for try := 1; ; try++ {
			err := d.attempt(ctx)
			if err == nil {
				return tokenstore.Record{}, nil
			}
			wait := jitter.Backoff(try, firstDisposal, lastDisposal)
			d.conns.hooks.log(ctx, slog.LevelWarn, "could not revoke a token that was not stored; retrying", d.key,
				slog.Any("error", err), slog.Int("try", try), slog.Duration("next_in", wait))
			if !pause(ctx, wait) {
				return tokenstore.Record{}, err
			}
		}
	})
	return c
}

// attempt disposes of the token once.
func (d *disposal) attempt(ctx context.Context) (err error) {
	defer recoverAsError(&err)
	c := d.conns
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	if d.stored != nil || d.keep {
		record, err := c.store.Load(ctx, d.key)
		switch {
		case errors.Is(err, tokenstore.ErrNoRecord), errors.Is(err, tokenstore.ErrUnreadable):
		case err != nil:
			return storeError("Load", d.key, err)
		case record.Token.AccessToken == d.token.AccessToken:
			if d.stored != nil {
				d.stored(ctx, record)
			}
			return nil
		case d.keep && !d.token.RefreshToken.IsZero() && record.Token.RefreshToken == d.token.RefreshToken:
			return nil // the record has the same grant
		case d.keep && record.State == tokenstore.StateActive:
			return d.add(ctx)
		}
	}
	alive, err := c.revokeGrant(ctx, d.token)
	d.token = alive
	return err
}

// add adds the token to the grants to revoke of an active record.
func (d *disposal) add(ctx context.Context) error {
	_, written, err := d.conns.rewrite(ctx, d.key, func(_ context.Context, before tokenstore.Record) (oauth.Token, bool) {
		return replacing(before.Token, grantOf(d.token)), before.State == tokenstore.StateActive && before.Token.AccessToken != d.token.AccessToken
	})
	if err == nil {
		d.conns.revokeReplaced(ctx, written)
	}
	return err
}

// revokeGrant revokes a token. It succeeds if the platform has forgotten the token. With an
// error, alive is the token that must still be revoked.
//
// The API does not define the response for an unknown token, but the response to its refresh
// token is clear. If the refresh token still works, revokeGrant revokes the new pair.
func (r *records) revokeGrant(ctx context.Context, token oauth.Token) (alive oauth.Token, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*r.config.responseTime())
	defer cancel()
	err = r.client.Revoke(ctx, token)
	switch {
	case err == nil, isForgotten(err):
		return oauth.Token{}, nil
	case !isUnclear(err):
		return token, err
	case token.RefreshToken.IsZero():
		if !token.ExpiresAt.IsZero() && time.Now().After(token.ExpiresAt) {
			return oauth.Token{}, nil
		}
		return token, err
	}
	next, failure := r.client.Refresh(ctx, token)
	switch {
	case isInvalidGrant(failure):
		return oauth.Token{}, nil
	case failure != nil:
		return token, err
	case r.client.Revoke(ctx, next) == nil:
		return oauth.Token{}, nil
	}
	return next, err
}

// isForgotten reports whether a revocation failed because the platform does not know the
// token.
func isForgotten(err error) bool {
	var response *api.Error
	return errors.As(err, &response) && (response.Code == "invalid_grant" || response.Code == "invalid_token") && isUnclear(err)
}

// isUnclear reports whether the response to a revocation leaves open whether the platform
// knows the token.
func isUnclear(err error) bool {
	var response *api.Error
	return errors.As(err, &response) && response.StatusCode >= 400 && response.StatusCode < 500 &&
		response.StatusCode != http.StatusTooManyRequests && response.Code != "invalid_client"
}

// grantOf returns the grant of a token for a later revocation.
func grantOf(t oauth.Token) oauth.ReplacedGrant {
	return oauth.ReplacedGrant{
		AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, ExpiresAt: t.ExpiresAt,
		ResourceOwner: t.ResourceOwner, Clinic: t.Clinic,
	}
}

// tokenOf returns a replaced grant as a token for its revocation.
func (r *records) tokenOf(g oauth.ReplacedGrant) oauth.Token {
	return oauth.Token{
		AccessToken: g.AccessToken, RefreshToken: g.RefreshToken, ExpiresAt: g.ExpiresAt,
		ResourceOwner: g.ResourceOwner, Clinic: g.Clinic, Environment: r.client.Environment(),
	}
}

// sameAccount reports whether two grants act for the same account of the platform, as far as
// is known. A grant of another account must be revoked at once, because replicas with the
// grant in memory act for that account. A grant of the same account must not be revoked,
// because this may revoke the user's whole consent and so the newer grant (assumption). It
// stays in the record until [Connections.Disconnect].
func sameAccount(a, b oauth.ReplacedGrant) bool {
	if a.ResourceOwner != b.ResourceOwner && a.ResourceOwner != (oauth.ResourceOwner{}) && b.ResourceOwner != (oauth.ResourceOwner{}) {
		return false
	}
	return a.Clinic.ID == b.Clinic.ID || a.Clinic.ID == "" || b.Clinic.ID == ""
}

// replacing returns a token with more grants to revoke.
func replacing(token oauth.Token, grants ...oauth.ReplacedGrant) oauth.Token {
	token.Replaced = slices.Clone(token.Replaced)
	for _, g := range grants {
		same := func(other oauth.ReplacedGrant) bool {
			return g.AccessToken == other.AccessToken || (!g.RefreshToken.IsZero() && g.RefreshToken == other.RefreshToken)
		}
		if !g.AccessToken.IsZero() && !same(grantOf(token)) && !slices.ContainsFunc(token.Replaced, same) {
			token.Replaced = append(token.Replaced, g)
		}
	}
	return token
}

// otherAccounts reports whether the record of a token has grants of other accounts.
func otherAccounts(token oauth.Token) bool {
	return slices.ContainsFunc(token.Replaced, func(g oauth.ReplacedGrant) bool { return !sameAccount(g, grantOf(token)) })
}

// revokeAll revokes grants. It returns the grants that must still be revoked, perhaps with a
// new pair.
func (r *records) revokeAll(ctx context.Context, grants []oauth.ReplacedGrant) (left []oauth.ReplacedGrant, _ error) {
	var problems []error
	for _, g := range grants {
		if alive, err := r.revokeGrant(ctx, r.tokenOf(g)); err != nil {
			problems = append(problems, err)
			left = append(left, grantOf(alive))
		}
	}
	if len(problems) == 1 {
		return left, problems[0]
	}
	return left, errors.Join(problems...)
}

// revokeReplaced revokes the replaced grants of other accounts, removes them from the record
// and returns the record. It has the lease meanwhile. If it cannot revoke a grant, the grant
// stays for the next time.
func (r *records) revokeReplaced(ctx context.Context, record tokenstore.Record) tokenstore.Record {
	if !otherAccounts(record.Token) {
		return record
	}
	_, written, err := r.rewrite(ctx, record.Key, func(ctx context.Context, before tokenstore.Record) (token oauth.Token, changed bool) {
		token = before.Token
		if token.Replaced = nil; before.State != tokenstore.StateActive {
			return token, false
		}
		var others []oauth.ReplacedGrant
		for _, g := range before.Token.Replaced {
			if sameAccount(g, grantOf(token)) {
				token.Replaced = append(token.Replaced, g)
			} else {
				others = append(others, g)
			}
		}
		left, err := r.revokeAll(ctx, others)
		if err != nil {
			r.hooks.log(ctx, slog.LevelWarn, "could not revoke a replaced token yet", record.Key, slog.Any("error", err))
		}
		token.Replaced = append(token.Replaced, left...)
		return token, !slices.Equal(left, others)
	})
	switch {
	case err != nil && !needsUser(err):
		r.hooks.log(ctx, slog.LevelWarn, "could not remove a revoked token from the record", record.Key, slog.Any("error", err))
	case err == nil && written.Version != 0:
		return written
	}
	return record
}

// revokeReplacedLater starts revokeReplaced in the background if an earlier attempt has left
// grants of other accounts in the record.
func (c *Connections) revokeReplacedLater(ctx context.Context, record tokenstore.Record) {
	if otherAccounts(record.Token) {
		c.users.join(ctx, callKey{key: record.Key, kind: revokeCall}, nil, func(ctx context.Context) (tokenstore.Record, error) {
			return c.revokeReplaced(ctx, record), nil
		})
	}
}

// Disconnect revokes the token of user and its replaced tokens at the platform, and then
// deletes the record. You can repeat it: it returns nil for a user who is not connected.
// [Observer].Disconnected reports success.
//
// Disconnect takes the lease on the record first. It waits for a running refresh and blocks
// new ones, so that no token pair stays behind unrevoked. If the platform is unreachable, the
// record stays, marked with [tokenstore.ReasonDisconnecting]. No call uses it any more, and
// you can call Disconnect again until it succeeds. If the user reconnects in the meantime, the
// new token stays. If the platform has forgotten the token, because the user revoked it there,
// Disconnect succeeds. If the response leaves this open, Disconnect tries the refresh token to
// find out.
//
// Another replica may use the token in its memory until the platform has revoked it, and for
// at most 30 seconds if the platform is unreachable.
//
// Errors:
//
//   - [*api.Error] and [*oauth.ConfigError] of the platform. The user is then marked.
//   - [*StoreError]: the store failed.
//   - [tokenstore.ErrLeased]: another owner kept the lease for longer than [Config].LeaseTTL
//     and a minute.
//   - The error of ctx. Disconnect still marks the user, for at most a third of
//     [Config].LeaseTTL.
//
// API section: "Authentication" 6.
func (c *Connections) Disconnect(ctx context.Context, user string) error {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return err
	}
	if _, err := c.awaitPendingCommit(ctx, key); isStoreError(err) {
		return err // the pair to revoke is not stored yet
	}
	leased, err := c.waitForLease(ctx, key)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return nil
	case err != nil:
		return err
	}
	defer c.users.forget(key) // the record is deleted or marked
	if err := c.revokeLeased(ctx, leased); err != nil {
		return err
	}
	return c.deleteLeased(ctx, leased)
}

// revokeLeased revokes the token and the replaced grants of a leased record. If a revocation
// fails, it marks the user and stores the grants that are left.
func (c *Connections) revokeLeased(ctx context.Context, leased leasedRecord) error {
	revoking, cancel := context.WithDeadline(ctx, leased.since.Add(2*c.config.responseTime()))
	defer cancel()
	left, err := c.revokeAll(revoking, append([]oauth.ReplacedGrant{grantOf(leased.Token)}, leased.Token.Replaced...))
	if err == nil {
		return nil
	}
	next := leased.Token
	next.AccessToken, next.RefreshToken, next.ExpiresAt = left[0].AccessToken, left[0].RefreshToken, left[0].ExpiresAt
	next.ResourceOwner, next.Clinic, next.Replaced = left[0].ResourceOwner, left[0].Clinic, left[1:]
	marking, cancel := detach(ctx, c.config.responseTime())
	defer cancel()
	if _, failure := c.commit(marking, leased, next, tokenstore.ReasonDisconnecting); isStoreError(failure) {
		return errors.Join(err, failure)
	}
	return err
}

// deleteLeased deletes the record, unless the user has reconnected meanwhile.
func (r *records) deleteLeased(ctx context.Context, leased leasedRecord) error {
	ctx, cancel := detach(ctx, storeTimeout)
	defer cancel()
	key, version := leased.lease.Key, leased.lease.Version
	for {
		err := r.store.DeleteVersion(ctx, key, version)
		if err == nil {
			break
		}
		if !errors.Is(err, tokenstore.ErrConflict) {
			return storeError("DeleteVersion", key, err)
		}
		current, err := r.store.Load(ctx, key)
		switch {
		case errors.Is(err, tokenstore.ErrNoRecord): // by another Disconnect
		case err != nil:
			return storeError("Load", key, err)
		case current.Token.AccessToken != leased.Token.AccessToken:
			return nil
		}
		version = current.Version // the revoked token was marked meanwhile
	}
	r.hooks.log(ctx, slog.LevelInfo, "user disconnected", key)
	notify(ctx, &r.hooks, key, func(o *Observer) func(context.Context, tokenstore.Key) { return o.Disconnected }, key)
	return nil
}

// Restore removes a wrong mark of a user. The token is still in the store, and the next call
// uses it again. Restore sends no request to the platform. If the refresh token is invalid
// after all, the first call that is at least a minute after the mark marks the user again.
// Restore returns nil for a user without a mark.
// [Observer].Restored reports success.
//
// Calls retry a wrongly rejected refresh token anyway. Restore is for operators who do not
// want to wait, and for marks with other reasons.
//
// Errors:
//
//   - [*ReauthorizeError] with [tokenstore.ReasonNotConnected]: the user is not connected.
//   - [*ReauthorizeError] with [tokenstore.ReasonDisconnecting]: the user is being
//     disconnected.
//   - [*StoreError]: the store failed.
//   - [tokenstore.ErrLeased]: another owner kept the lease for longer than [Config].LeaseTTL
//     and a minute.
//   - The error of ctx.
func (c *Connections) Restore(ctx context.Context, user string) error {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return err
	}
	before, written, err := c.rewrite(ctx, key, func(_ context.Context, before tokenstore.Record) (oauth.Token, bool) {
		return before.Token, before.State != tokenstore.StateActive && before.Reason != tokenstore.ReasonDisconnecting
	})
	switch {
	case err != nil:
		return err
	case written.Version == 0:
		return c.validate(before)
	}
	c.brakes.forget(key)
	c.hooks.log(ctx, slog.LevelInfo, "user restored", key, slog.String("reason", string(before.Reason)))
	notify(ctx, &c.hooks, key, func(o *Observer) func(context.Context, tokenstore.Key) { return o.Restored }, key)
	return nil
}
