package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// Authorization is what a user has just granted, before it is stored.
type Authorization struct {
	// Key names the user to be connected.
	Key Key

	// Owner is whom the new token acts for.
	Owner oauth.ResourceOwner

	// Previous is the owner of the token that is stored until now, zero if
	// there is none: where that cannot be found out no user is connected.
	// Another owner means that the user signed in to another
	// account of the platform, which may have other patients.
	Previous oauth.ResourceOwner

	// Scopes are the granted scopes.
	Scopes []string

	// Clinic is the one that the user belongs to, if [Config].Clinic could find it out.
	Clinic oauth.Clinic
}

// Connect turns the code of a callback into a stored token of user: it exchanges
// the code, asks for the clinic, checks that the account is the right one ([Config.OwnerTypes] and
// [Config.Verify]), and saves. A token that is not accepted is revoked and not
// stored. A [Connected] event reports success.
//
// A code works once, so that whatever comes after the exchange is tried hard: a
// store that fails is asked again for a third of [Config.LeaseTTL]. If it still
// fails the token is revoked, because it would be lost. With [Config.Verify] the same
// goes for a stored token that cannot be opened ([ErrUnreadable]), because its owner is
// not known: put the key back, or delete the record.
//
// Errors: [oauth.ErrCodeRefused]; [*oauth.ConfigError]; [ErrOwnerRefused], together
// with what Verify returned; [*StoreError]; otherwise [*api.Error]. The user can
// always start again.
// API section: "Authentication" 3.
func (c *Connections) Connect(ctx context.Context, user string, code api.Secret) (Record, error) {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return Record{}, err
	}
	token, err := c.client.Exchange(ctx, code)
	if err != nil {
		return Record{}, err // nothing is counted against the application: the code is the browser's
	}
	stored := false
	defer func() {
		if !stored { // for any reason, a panic of Verify included
			c.revokeOrphan(ctx, key, token)
		}
	}()
	previous, err := c.previousOwner(ctx, key)
	if err != nil {
		return Record{}, err
	}
	token.Clinic = c.findClinic(ctx, key, token)
	grant := Authorization{Key: key, Owner: token.ResourceOwner, Previous: previous, Scopes: token.Scopes(), Clinic: token.Clinic}
	if err := c.verify(ctx, grant); err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrOwnerRefused, err)
	}
	record, err := c.saveFirst(ctx, key, token)
	if err != nil {
		return Record{}, err
	}
	stored = true
	c.forget(key)
	c.circuit.clearAll(key)
	c.forced.clear(key)
	c.hooks.log(ctx, slog.LevelInfo, "user connected", key, slog.Any("token", token))
	c.hooks.raise(ctx, Connected{Key: key, Owner: token.ResourceOwner, Previous: previous, Scopes: token.Scopes()})
	return record, nil
}

// verify asks the configuration whether the account is accepted.
func (c *Connections) verify(ctx context.Context, grant Authorization) error {
	if types := c.config.OwnerTypes; len(types) > 0 && !slices.Contains(types, grant.Owner.Type) {
		return fmt.Errorf("the account is of the type %q", grant.Owner.Type)
	}
	if c.config.Verify == nil {
		return nil
	}
	return c.config.Verify(ctx, grant)
}

// previousOwner returns the owner of the token that is stored, zero if there is none.
// Where Verify compares it a store that fails is asked again, because the code cannot
// be had again; a record that cannot be opened stays as it is. Elsewhere it is zero
// where it is not known.
func (c *Connections) previousOwner(ctx context.Context, key Key) (oauth.ResourceOwner, error) {
	ctx, cancel := c.withAnswerTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		record, err := c.store.Load(ctx, key)
		switch {
		case err == nil:
			return record.Token.ResourceOwner, nil
		case errors.Is(err, ErrNoRecord), c.config.Verify == nil:
			return oauth.ResourceOwner{}, nil
		case errors.Is(err, ErrUnreadable), !pause(ctx, jitteredBackoff(try, firstRewrite, lastPoll)):
			return oauth.ResourceOwner{}, storeError("Load", key, err)
		}
	}
}

// saveFirst stores a token that cannot be had again.
func (c *Connections) saveFirst(ctx context.Context, key Key, token oauth.Token) (Record, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	end := time.Now().Add(c.config.answerTime())
	for try := 1; ; try++ {
		record, err := c.store.Save(ctx, key, token)
		if err == nil {
			return record, nil
		}
		problem := storeError("Save", key, err)
		c.hooks.log(ctx, slog.LevelWarn, "a new token could not be stored", key, slog.Any("error", problem), slog.Int("try", try))
		if time.Now().After(end) || !pause(ctx, jitteredBackoff(try, firstRewrite, lastPoll)) {
			return Record{}, problem
		}
	}
}

// revokeOrphan revokes a token that was not stored, as far as that is possible.
func (c *Connections) revokeOrphan(ctx context.Context, key Key, token oauth.Token) {
	ctx, cancel := c.withAnswerTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if err := c.client.Revoke(ctx, token); err != nil {
		c.hooks.log(ctx, slog.LevelWarn, "a token that was not stored could not be revoked", key, slog.Any("error", err))
	}
}

// Disconnect revokes the token of user at the platform and then deletes it. A
// user who is not connected is no error, so that it can be repeated. A
// [Disconnected] event reports success.
//
// It takes the lease on the record first: a refresh under way is waited for, and
// none begins, so that no pair is left behind unknown. If the platform
// cannot be reached, the record stays, marked with [ReasonDisconnecting]: no call
// uses it any more, and Disconnect can be called again until it succeeds. Should
// the user connect anew in the meantime, the new token stays. A platform that has
// forgotten the token, because the user revoked it there, counts as success; where its
// answer leaves that open, the refresh token is tried.
//
// Another replica, or another source, may go on with the token in its memory
// until the platform has revoked it, and not after that.
//
// Errors: the platform's ([*api.Error], [*oauth.ConfigError]), after which the user
// is marked; [*StoreError]; [ErrLeased] if another owner kept the lease for longer
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
	case errors.Is(err, ErrNoRecord):
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

// revokeLeased revokes the token of a record whose lease is held, or marks it. A
// platform that does not know the grant any more has nothing to revoke.
func (c *Connections) revokeLeased(ctx context.Context, leased *leasedRecord) error {
	revoking, cancel := context.WithDeadline(ctx, leased.since.Add(2*c.config.answerTime()))
	defer cancel()
	err := c.client.Revoke(revoking, leased.Token)
	if err == nil || c.alreadyRevoked(revoking, leased, err) {
		return nil
	}
	marking, cancel := withStoreTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if _, failure := c.store.Fail(marking, leased.lease, ReasonDisconnecting); failure != nil && !isContention(failure) {
		return errors.Join(err, storeError("Fail", leased.lease.Key, failure))
	}
	return err
}

// alreadyRevoked reports that a refusal to revoke leaves nothing to be revoked. What a
// platform says of a token that it does not know is not stated; its word on the
// refresh token is clear. If that brings a new pair, the pair has to be revoked: it
// is kept if that fails.
func (c *Connections) alreadyRevoked(ctx context.Context, leased *leasedRecord, refusal error) bool {
	var answer *api.Error
	switch old := leased.Token; {
	case !errors.As(refusal, &answer), answer.StatusCode < 400, answer.StatusCode >= 500, answer.StatusCode == http.StatusTooManyRequests:
		return false
	case answer.Code == "invalid_grant", answer.Code == "invalid_token":
		return true
	case answer.Code == "invalid_client":
		return false
	case old.RefreshToken == "":
		return !old.ExpiresAt.IsZero() && time.Now().After(old.ExpiresAt)
	}
	token, err := c.exchangeOnce(ctx, leased.Token)
	if err != nil {
		return isInvalidGrant(err)
	}
	if c.client.Revoke(ctx, token) == nil {
		return true
	}
	if _, err := c.commit(context.WithoutCancel(ctx), *leased, token, false); err != nil {
		return false
	}
	if again, err := c.waitForLease(context.WithoutCancel(ctx), leased.lease.Key); err == nil {
		*leased = again // the new pair's record is the one to be marked
	}
	return false
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
		if !errors.Is(err, ErrConflict) {
			return storeError("DeleteVersion", key, err)
		}
		current, err := c.store.Load(ctx, key)
		switch {
		case errors.Is(err, ErrNoRecord): // by another Disconnect
		case err != nil:
			return storeError("Load", key, err)
		case current.Token.AccessToken != leased.Token.AccessToken:
			return nil
		}
		version = current.Version // the token that was revoked has been marked
	}
	c.hooks.log(ctx, slog.LevelInfo, "user disconnected", key)
	c.hooks.raise(ctx, Disconnected{Key: key})
	return nil
}

// Restore removes the mark of a user who was marked wrongly: the token is still in
// the store and is used again, beginning with the next call. The platform is not
// asked; should the refresh token be dead after all, that call marks the user
// anew. A user who is not marked is no error. A [Restored] event reports success.
//
// A refresh token that was refused wrongly is tried again by calls anyway. Restore
// is for operators who do not want to wait, and for marks of other reasons.
//
// Errors: a [*ReauthorizeError] with [ReasonNotConnected], or with
// [ReasonDisconnecting] for a user who is being disconnected; [*StoreError];
// [ErrLeased] if another owner kept the lease for longer than leases last; the error
// of ctx.
func (c *Connections) Restore(ctx context.Context, user string) error {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return err
	}
	before, changed, err := c.rewrite(ctx, key, func(before Record) (oauth.Token, bool) {
		return before.Token, before.State != StateActive && before.Reason != ReasonDisconnecting
	})
	switch {
	case err != nil:
		return err
	case !changed:
		return c.validate(before)
	}
	c.circuit.clearAll(key)
	c.hooks.log(ctx, slog.LevelInfo, "user restored", key, slog.String("reason", string(before.Reason)))
	c.hooks.raise(ctx, Restored{Key: key})
	return nil
}

// rewrite commits the token that change makes of a record, whose lease it takes; a change
// that returns false leaves the record as it is. It returns the record of before.
func (c *Connections) rewrite(ctx context.Context, key Key, change func(Record) (oauth.Token, bool)) (before Record, changed bool, err error) {
	leased, err := c.waitForLease(ctx, key)
	switch {
	case errors.Is(err, ErrNoRecord):
		return Record{}, false, c.reauthorize(key, ReasonNotConnected, oauth.ResourceOwner{}, nil)
	case err != nil:
		return Record{}, false, err
	}
	before = leased.Record
	token, changed := change(before)
	if !changed {
		c.release(context.WithoutCancel(ctx), leased.lease)
		return before, false, nil
	}
	writing, cancel := withStoreTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if _, err := c.store.Commit(writing, leased.lease, token); err != nil {
		c.release(context.WithoutCancel(ctx), leased.lease)
		return before, false, storeError("Commit", key, err)
	}
	return before, true, nil
}
