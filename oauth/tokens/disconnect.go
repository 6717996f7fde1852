package tokens

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
//   - The error of ctx.
//
// API section: "Authentication" 6.
func (c *Connections) Disconnect(ctx context.Context, user string) error {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return err
	}
	if _, err := c.awaitPendingCommit(key); isStoreError(err) {
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
	revoking, cancel := context.WithDeadline(ctx, leased.since.Add(2*c.config.answerTime()))
	defer cancel()
	left, err := c.revokeAll(revoking, append([]oauth.ReplacedGrant{grantOf(leased.Token)}, leased.Token.Replaced...))
	if err == nil {
		return nil
	}
	next := leased.Token
	next.AccessToken, next.RefreshToken, next.ExpiresAt = left[0].AccessToken, left[0].RefreshToken, left[0].ExpiresAt
	next.ResourceOwner, next.Clinic, next.Replaced = left[0].ResourceOwner, left[0].Clinic, left[1:]
	if _, failure := c.commit(ctx, leased, next, tokenstore.ReasonDisconnecting); isStoreError(failure) {
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
