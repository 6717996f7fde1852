package oauth

import (
	"context"
	"errors"
	"log/slog"
)

// Restore takes a user's mark away who was marked wrongly: the token is still in
// the store and is used again, beginning with the next call. The platform is not
// asked; should the refresh token be dead after all, that call marks the user
// anew. A user who is not marked is no error. A [Restored] event tells of success.
//
// A refresh token that was refused wrongly is tried again by calls anyway. Restore
// is for who does not want to wait, and for marks of other reasons.
//
// Errors: a [*ReauthorizeError] with [ReasonNotConnected], or with
// [ReasonDisconnecting] for a user who is being disconnected; [*StoreError];
// [ErrLeased] if somebody kept the lease for longer than leases last; the error of
// ctx.
func (c *Client) Restore(ctx context.Context, store Store, user string) error {
	at := slot{store, c.Key(user), toRenew}
	if err := at.key.Validate(); err != nil {
		return err
	}
	l, err := c.seize(ctx, at)
	switch {
	case errors.Is(err, ErrNoRecord):
		return c.reauthorize(at.key, ReasonNotConnected, ResourceOwner{}, nil)
	case err != nil:
		return err
	}
	if l.old.State == StateActive || l.old.Reason == ReasonDisconnecting {
		l.release(context.WithoutCancel(ctx))
		return c.vet(l.old)
	}
	writing, cancel := c.limitStore(context.WithoutCancel(ctx))
	defer cancel()
	if _, err := store.Commit(writing, l.lease, l.old.Token); err != nil {
		l.release(context.WithoutCancel(ctx))
		return storeError("Commit", at.key, err)
	}
	c.cooling.clear(at)
	c.retrying.clear(at)
	c.log(ctx, slog.LevelInfo, "user restored", at.key, slog.String("reason", string(l.old.Reason)))
	c.notify(ctx, Restored{Key: at.key})
	return nil
}
