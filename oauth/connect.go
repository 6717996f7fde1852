package oauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Authorization is what a user has just granted, before it is stored.
type Authorization struct {
	// Key names the user to be connected.
	Key Key

	// Owner is whom the new token acts for.
	Owner ResourceOwner

	// Previous is the owner of the token that is stored until now, zero if
	// there is none: where that cannot be found out nobody is connected.
	// Another owner means that the user signed in to another
	// account of the platform, which may have other patients.
	Previous ResourceOwner

	// Scopes are the granted scopes.
	Scopes []string
}

// Connect turns the code of a callback into a stored token of user: it exchanges
// the code, asks verify whether the account is the right one, and saves. verify
// may be nil; a token that it refuses is revoked and not stored. A [Connected]
// event tells of success.
//
// A code works once, so that whatever comes after the exchange is tried hard: a
// store that fails is asked again for a third of [Config.LeaseTTL]. If it still
// fails the token is revoked, for nobody would have it. With verify the same goes
// for a stored token that cannot be opened ([ErrUnreadable]), because its owner is
// not known: put the key back, or delete the record.
//
// Errors: [ErrCodeRefused]; [*ConfigError]; [ErrOwnerRefused], together with
// what verify returned; [*StoreError]; otherwise [*api.Error]. The user can
// always start again.
// API section: "Authentication" 3.
func (c *Client) Connect(ctx context.Context, store Store, user string, code api.Secret, verify func(context.Context, Authorization) error) (Record, error) {
	return c.connect(ctx, store, user, code, verify, verify != nil)
}

// connect is Connect; compares is set where verify may look at the previous owner.
func (c *Client) connect(ctx context.Context, store Store, user string, code api.Secret, verify func(context.Context, Authorization) error, compares bool) (Record, error) {
	at := slot{store, c.Key(user), toRenew}
	if err := at.key.Validate(); err != nil {
		return Record{}, err
	}
	token, err := c.Exchange(ctx, code)
	if err != nil {
		return Record{}, err // whatever it is: the code is the browser's, and others refresh on
	}
	stored := false
	defer func() {
		if !stored { // for whatever reason, a panic of verify included
			c.discard(ctx, at.key, token)
		}
	}()
	previous, err := c.previousOwner(ctx, at, compares)
	if err != nil && compares {
		return Record{}, err
	}
	if verify != nil {
		grant := Authorization{Key: at.key, Owner: token.ResourceOwner, Previous: previous, Scopes: token.Scopes()}
		if err := verify(ctx, grant); err != nil {
			return Record{}, fmt.Errorf("%w: %w", ErrOwnerRefused, err)
		}
	}
	record, err := c.saveFirst(ctx, at, token)
	if err != nil {
		return Record{}, err
	}
	stored = true
	c.cooling.clear(at)
	c.retrying.clear(at)
	c.forcing.clear(at)
	c.log(ctx, slog.LevelInfo, "user connected", at.key, slog.Any("token", token))
	c.notify(ctx, Connected{Key: at.key, Owner: token.ResourceOwner, Previous: previous, Scopes: token.Scopes()})
	return record, nil
}

// previousOwner returns the owner of the token that is stored, zero if there is none.
// Where it matters a store that fails is asked again, for the code cannot be had
// again; a record that cannot be opened stays as it is.
func (c *Client) previousOwner(ctx context.Context, at slot, matters bool) (ResourceOwner, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	for try := 1; ; try++ {
		record, err := at.store.Load(ctx, at.key)
		switch {
		case err == nil:
			return record.Token.ResourceOwner, nil
		case errors.Is(err, ErrNoRecord):
			return ResourceOwner{}, nil
		case !matters, errors.Is(err, ErrUnreadable), !pause(ctx, backoff(try, firstRewrite, lastPoll)):
			return ResourceOwner{}, storeError("Load", at.key, err)
		}
	}
}

// saveFirst stores a token that cannot be had again.
func (c *Client) saveFirst(ctx context.Context, at slot, token Token) (Record, error) {
	ctx, cancel := c.limitStore(ctx)
	defer cancel()
	end := time.Now().Add(c.answerTime())
	for try := 1; ; try++ {
		record, err := at.store.Save(ctx, at.key, token)
		if err == nil {
			return record, nil
		}
		problem := storeError("Save", at.key, err)
		c.log(ctx, slog.LevelWarn, "a new token could not be stored", at.key, slog.Any("error", problem), slog.Int("try", try))
		if time.Now().After(end) || !pause(ctx, backoff(try, firstRewrite, lastPoll)) {
			return Record{}, problem
		}
	}
}

// discard revokes a token that nobody will have, as far as that goes.
func (c *Client) discard(ctx context.Context, key Key, token Token) {
	ctx, cancel := c.limit(context.WithoutCancel(ctx))
	defer cancel()
	if err := c.Revoke(ctx, token); err != nil {
		c.log(ctx, slog.LevelWarn, "a token that was not stored could not be revoked", key, slog.Any("error", err))
	}
}

// Disconnect revokes the token of user at the platform and then forgets it. A
// user who is not connected is no error, so that it can be repeated. A
// [Disconnected] event tells of success.
//
// It takes the lease on the record first: a refresh under way is waited for, and
// none begins, so that no pair is left behind that nobody knows. If the platform
// cannot be told, the record stays, marked with [ReasonDisconnecting]: no call
// uses it any more, and Disconnect can be called again until it succeeds. Should
// the user connect anew in the meantime, the new token stays. A platform that has
// forgotten the token, because the user revoked it there, counts as told; where its
// answer leaves that open, the refresh token is tried.
//
// Another replica, or another source, may go on with the token in its memory
// until the platform has revoked it, and not after that.
//
// Errors: the platform's ([*api.Error], [*ConfigError]), after which the user is
// marked; [*StoreError]; [ErrLeased] if somebody kept the lease for longer than
// leases last; the error of ctx.
// API section: "Authentication" 6.
func (c *Client) Disconnect(ctx context.Context, store Store, user string) error {
	at := slot{store, c.Key(user), toRenew}
	if err := at.key.Validate(); err != nil {
		return err
	}
	if _, err := (&renewal{client: c, slot: at}).settle(); unwritten(err) {
		return err // the pair to revoke is the one that is not stored yet
	}
	l, err := c.seize(ctx, at)
	switch {
	case errors.Is(err, ErrNoRecord):
		return nil
	case err != nil:
		return err
	}
	if err := c.revokeLeased(ctx, l); err != nil {
		return err
	}
	return c.forget(ctx, l)
}

// revokeLeased revokes the token of a record whose lease is held, or marks it. A
// platform that does not know the grant any more has nothing to revoke.
func (c *Client) revokeLeased(ctx context.Context, l *leased) error {
	revoking, cancel := context.WithDeadline(ctx, l.since.Add(2*c.answerTime()))
	defer cancel()
	err := c.Revoke(revoking, l.old.Token)
	if err == nil || l.forgotten(revoking, err) {
		return nil
	}
	marking, cancel := c.limitStore(context.WithoutCancel(ctx))
	defer cancel()
	if _, failure := l.slot.store.Fail(marking, l.lease, ReasonDisconnecting); failure != nil && !isContention(failure) {
		return errors.Join(err, storeError("Fail", l.slot.key, failure))
	}
	return err
}

// forgotten reports that a refusal to revoke leaves nothing to be revoked. What a
// platform says of a token that it does not know is not stated; its word on the
// refresh token is clear. A new pair is what has to be revoked then: it is kept if
// that fails.
func (l *leased) forgotten(ctx context.Context, refusal error) bool {
	var answer *api.Error
	switch old := l.old.Token; {
	case !errors.As(refusal, &answer), answer.StatusCode < 400, answer.StatusCode >= 500, answer.StatusCode == http.StatusTooManyRequests:
		return false
	case answer.Code == "invalid_grant", answer.Code == "invalid_token":
		return true
	case answer.Code == "invalid_client":
		return false
	case old.RefreshToken == "":
		return !old.ExpiresAt.IsZero() && time.Now().After(old.ExpiresAt)
	}
	token, err := l.ask(ctx)
	if err != nil {
		return isInvalidGrant(err)
	}
	if l.client.Revoke(ctx, token) == nil {
		return true
	}
	if _, err := l.commit(context.WithoutCancel(ctx), token); err != nil {
		return false
	}
	if again, err := l.client.seize(context.WithoutCancel(ctx), l.slot); err == nil {
		*l = *again // the new pair's record is the one to be marked
	}
	return false
}

// forget deletes the record, unless the user has connected again meanwhile.
func (c *Client) forget(ctx context.Context, l *leased) error {
	ctx, cancel := c.limitStore(context.WithoutCancel(ctx))
	defer cancel()
	key := l.slot.key
	version := l.lease.Version
	for {
		err := l.slot.store.DeleteVersion(ctx, key, version)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrConflict) {
			return storeError("DeleteVersion", key, err)
		}
		current, err := l.slot.store.Load(ctx, key)
		switch {
		case errors.Is(err, ErrNoRecord): // by another Disconnect
		case err != nil:
			return storeError("Load", key, err)
		case current.Token.AccessToken != l.old.Token.AccessToken:
			return nil
		}
		version = current.Version // somebody has marked the token that was revoked
	}
	c.log(ctx, slog.LevelInfo, "user disconnected", key)
	c.notify(ctx, Disconnected{Key: key})
	return nil
}

// seize takes the lease on a record in whatever state, and waits for its turn.
func (c *Client) seize(ctx context.Context, at slot) (*leased, error) {
	r := &renewal{client: c, slot: at}
	end := time.Now().Add(c.config.LeaseTTL + storeTime)
	for try := 1; ; try++ {
		record, err := at.store.Load(ctx, at.key)
		if errors.Is(err, ErrNoRecord) {
			return nil, err
		}
		if err != nil {
			return nil, storeError("Load", at.key, err)
		}
		l, err := r.lease(ctx, record)
		switch {
		case err == nil:
			return l, nil
		case !isContention(err):
			return nil, storeError("Lease", at.key, err)
		case time.Now().After(end):
			return nil, fmt.Errorf("dispensary: no turn at the token of %s: %w", at.key, err)
		case !pause(ctx, backoff(try, firstPoll, lastPoll)):
			return nil, ctx.Err()
		}
	}
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
