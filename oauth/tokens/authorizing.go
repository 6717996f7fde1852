package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// authorizing is a token that a user has just granted, until it is stored. Neither the code
// nor the token can be requested again.
type authorizing struct {
	conns *Connections
	key   tokenstore.Key
	token oauth.Token

	previous oauth.ResourceOwner // of the record to be replaced
	verified bool                // the configuration accepted the account instead of previous

	stored  bool
	unknown bool // a Save that failed may have stored the token all the same
}

// save stores the token in place of the record that it has checked the account against. If the
// store fails or the record changes meanwhile, it starts over for a third of the LeaseTTL.
func (a *authorizing) save(ctx context.Context) (tokenstore.Record, error) {
	c := a.conns
	end := time.Now().Add(c.config.answerTime())
	for try := 1; ; try++ {
		record, err := a.replace(ctx)
		if err == nil || errors.Is(err, ErrOwnerRefused) || errors.Is(err, ErrUndecided) || errors.Is(err, tokenstore.ErrUnreadable) {
			return record, err
		}
		if !errors.Is(err, tokenstore.ErrConflict) {
			c.hooks.log(ctx, slog.LevelWarn, "a new token could not be stored", a.key, slog.Any("error", err), slog.Int("try", try))
		}
		if time.Now().After(end) || !pause(ctx, jitteredBackoff(try, firstRewrite, lastPoll)) {
			return tokenstore.Record{}, err
		}
	}
}

// replace reads the record, verifies the account and stores the token once.
func (a *authorizing) replace(ctx context.Context) (tokenstore.Record, error) {
	c := a.conns
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	before, err := c.store.Load(ctx, a.key)
	unreadable := errors.Is(err, tokenstore.ErrUnreadable) && c.config.Verify == nil
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord), unreadable:
		before = tokenstore.Record{}
	case err != nil:
		return tokenstore.Record{}, storeError("Load", a.key, err)
	case before.Token.AccessToken == a.token.AccessToken:
		return before, nil // by a Save whose response was lost
	}
	if err := a.verify(ctx, before.Token.ResourceOwner); err != nil {
		return tokenstore.Record{}, err
	}
	token, beyond := replacing(a.token, append(slices.Clone(before.Token.Replaced), grantOf(before.Token))...)
	save := func() (tokenstore.Record, error) { return c.store.SaveVersion(ctx, a.key, before.Version, token) }
	if unreadable {
		save = func() (tokenstore.Record, error) { return c.store.Save(ctx, a.key, token) }
	}
	record, err := save()
	if err != nil {
		a.unknown = a.unknown || !isContention(err)
		return tokenstore.Record{}, storeError("SaveVersion", a.key, err)
	}
	c.revokeBeyond(ctx, a.key, beyond)
	return record, nil
}

// verify asks the configuration whether it accepts the account, again if the record's
// owner has changed meanwhile.
func (a *authorizing) verify(ctx context.Context, previous oauth.ResourceOwner) error {
	if a.verified && a.previous == previous {
		return nil
	}
	a.previous = previous
	grant := Authorization{
		Key: a.key, Owner: a.token.ResourceOwner, Previous: previous, Scopes: a.token.Scopes(), Clinic: a.token.Clinic,
	}
	err := a.conns.verify(ctx, grant)
	switch {
	case errors.Is(err, ErrUndecided):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrOwnerRefused, err)
	}
	a.verified = true
	return nil
}

// verify asks the configuration whether the account is accepted.
func (c *Connections) verify(ctx context.Context, grant Authorization) error {
	if c.config.Verify == nil {
		return nil
	}
	return c.config.Verify(ctx, grant)
}

// connected reports that the token is stored, and revokes replaced grants of other accounts:
// replicas that have such a token in memory get a 401 for their next call, and read the new one.
func (a *authorizing) connected(ctx context.Context, record tokenstore.Record) tokenstore.Record {
	c, token := a.conns, record.Token
	c.forget(a.key)
	c.circuit.forget(a.key)
	revoking, cancel := c.withAnswerTimeout(context.WithoutCancel(ctx)) // the user waits for the page
	defer cancel()
	record = c.revokeReplaced(revoking, record)
	c.hooks.log(ctx, slog.LevelInfo, "user connected", a.key, slog.Any("token", token))
	c.hooks.notify(ctx, a.key, func(o *Observer) {
		if o.Connected != nil {
			o.Connected(ctx, Connected{Key: a.key, Owner: token.ResourceOwner, Previous: a.previous, Scopes: token.Scopes()})
		}
	})
	return record
}

// discard revokes a token that was not stored. After a Save with an unknown result it reads the
// record first, because a token that is stored must not be revoked.
func (a *authorizing) discard(ctx context.Context) {
	d := &disposal{conns: a.conns, key: a.key, token: a.token}
	if a.unknown {
		d.stored = func(ctx context.Context, record tokenstore.Record) { a.connected(ctx, record) }
	}
	d.now(ctx)
}
