package tokens

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Disconnect revokes the token of user at the platform, and the tokens that it has
// replaced, and then deletes the record. A user who is not connected is no error, so
// that it can be repeated. [Observer].Disconnected
// reports success.
//
// It takes the lease on the record first: a refresh under way is waited for, and
// none begins, so that no pair is left behind unknown. If the platform
// cannot be reached, the record stays, marked with [tokenstore.ReasonDisconnecting]: no call
// uses it any more, and Disconnect can be called again until it succeeds. Should
// the user connect anew in the meantime, the new token stays. A platform that has
// forgotten the token, because the user revoked it there, counts as success; where its
// answer leaves that open, the refresh token is tried.
//
// Another replica may use the token in its memory until the platform has revoked it, and for
// 30 seconds at most if the platform cannot be reached.
//
// Errors: the platform's ([*api.Error], [*oauth.ConfigError]), after which the user
// is marked; [*StoreError]; [tokenstore.ErrLeased] if another owner kept the lease for longer
// than leases last; the error of ctx.
// API section: "Authentication" 6.
func (c *Connections) Disconnect(ctx context.Context, user string) error {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return err
	}
	if _, err := c.awaitPendingCommit(key); isStoreError(err) {
		return err // the pair to revoke is the one that is not stored yet
	}
	leased, err := c.waitForLease(ctx, key)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return nil
	case err != nil:
		return err
	}
	defer c.forget(key) // the record is marked if it is not deleted
	if err := c.revokeLeased(ctx, &leased); err != nil {
		return err
	}
	return c.deleteLeased(ctx, leased)
}

// revokeLeased revokes the token and the replaced grants of a record whose lease is held,
// or marks the record.
func (c *Connections) revokeLeased(ctx context.Context, leased *leasedRecord) error {
	revoking, cancel := context.WithDeadline(ctx, leased.since.Add(2*c.config.answerTime()))
	defer cancel()
	alive, err := c.revokeGrant(revoking, leased.Token)
	problems := []error{err}
	next := leased.Token
	if err != nil {
		next.AccessToken, next.RefreshToken, next.ExpiresAt = alive.AccessToken, alive.RefreshToken, alive.ExpiresAt
	}
	next.Replaced = nil
	renewed := next.AccessToken != leased.Token.AccessToken
	for _, g := range leased.Token.Replaced {
		alive, err := c.revokeGrant(revoking, c.tokenOf(g))
		if err == nil {
			continue
		}
		problems = append(problems, err)
		next.Replaced = append(next.Replaced, grantOf(alive))
		renewed = renewed || alive.AccessToken != g.AccessToken
	}
	if err := errors.Join(problems...); err == nil {
		return nil
	}
	if renewed { // the new pairs are the ones to be revoked: they must not be lost
		c.keepLeased(ctx, leased, next)
	}
	marking, cancel := withStoreTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if _, failure := c.store.Fail(marking, leased.lease, tokenstore.ReasonDisconnecting); failure != nil && !isContention(failure) {
		problems = append(problems, storeError("Fail", leased.lease.Key, failure))
	}
	return joined(problems)
}

// keepLeased commits a token to a leased record and takes the lease again.
func (c *Connections) keepLeased(ctx context.Context, leased *leasedRecord, token oauth.Token) {
	ctx = context.WithoutCancel(ctx)
	if _, err := c.commit(ctx, *leased, token); err != nil {
		return
	}
	if again, err := c.waitForLease(ctx, leased.lease.Key); err == nil {
		*leased = again
	}
}

// joined returns the only error as it is.
func joined(problems []error) error {
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	if len(problems) == 1 {
		return problems[0]
	}
	return errors.Join(problems...)
}

// deleteLeased deletes the record, unless the user has connected again meanwhile.
func (c *Connections) deleteLeased(ctx context.Context, leased leasedRecord) error {
	ctx, cancel := withStoreTimeout(context.WithoutCancel(ctx))
	defer cancel()
	key, version := leased.lease.Key, leased.lease.Version
	for {
		err := c.store.DeleteVersion(ctx, key, version)
		if err == nil {
			break
		}
		if !errors.Is(err, tokenstore.ErrConflict) {
			return storeError("DeleteVersion", key, err)
		}
		current, err := c.store.Load(ctx, key)
		switch {
		case errors.Is(err, tokenstore.ErrNoRecord): // by another Disconnect
		case err != nil:
			return storeError("Load", key, err)
		case current.Token.AccessToken != leased.Token.AccessToken:
			return nil
		}
		version = current.Version // the token that was revoked has been marked
	}
	c.hooks.log(ctx, slog.LevelInfo, "user disconnected", key)
	notify(ctx, &c.hooks, key, func(o *Observer) func(context.Context, tokenstore.Key) { return o.Disconnected }, key)
	return nil
}

// Restore removes the mark of a user who was marked wrongly: the token is still in
// the store and is used again, beginning with the next call. The platform is not
// asked; should the refresh token be dead after all, that call marks the user
// anew. A user who is not marked is no error. [Observer].Restored
// reports success.
//
// A refresh token that was refused wrongly is tried again by calls anyway. Restore
// is for operators who do not want to wait, and for marks of other reasons.
//
// Errors: a [*ReauthorizeError] with [tokenstore.ReasonNotConnected], or with
// [tokenstore.ReasonDisconnecting] for a user who is being disconnected; [*StoreError];
// [tokenstore.ErrLeased] if another owner kept the lease for longer than leases last; the error
// of ctx.
func (c *Connections) Restore(ctx context.Context, user string) error {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return err
	}
	before, written, err := c.rewrite(ctx, key, func(before tokenstore.Record) (oauth.Token, bool) {
		return before.Token, before.State != tokenstore.StateActive && before.Reason != tokenstore.ReasonDisconnecting
	})
	switch {
	case err != nil:
		return err
	case written.Version == 0:
		return c.validate(before)
	}
	c.circuit.forget(key)
	c.hooks.log(ctx, slog.LevelInfo, "user restored", key, slog.String("reason", string(before.Reason)))
	notify(ctx, &c.hooks, key, func(o *Observer) func(context.Context, tokenstore.Key) { return o.Restored }, key)
	return nil
}
