package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Connect turns the code of a callback into a stored token of user. It exchanges the code,
// asks for the clinic, checks the account with [Config].Verify and stores the token. A
// rejected token is revoked and not stored. [Observer].Connected reports success. Connect
// exchanges the code on each call: see [Connections.RunFlow] for callbacks that arrive twice.
//
// A code works once, so Connect retries a failing store for a third of [Config].LeaseTTL. If
// the store still fails, Connect revokes the token, because it would be lost. With
// [Config].Verify it also revokes the token if the stored token cannot be decrypted
// ([tokenstore.ErrUnreadable]), because its owner is unknown. Restore the encryption key or
// delete the record.
//
// If the record has a token of another account or clinic, Connect revokes that token once the
// new one is stored. Replicas with the old token in memory get a 401 for their next call and
// then read the new token. If the platform is unreachable, the old token stays in the record
// ([oauth.Token].Replaced) and is revoked when a replica next reads the record. A replica
// compares its token in memory with the store every 30 seconds, so it uses the new account by
// then. A replaced token of the same account is not revoked before [Connections.Disconnect],
// because this may revoke the user's whole consent (assumption).
//
// Errors, after which the user can always start again:
//
//   - [oauth.ErrCodeRejected]: the platform rejected the code.
//   - [*oauth.ConfigError]: the platform rejected the application.
//   - [ErrOwnerRejected], together with the error of Verify: Verify rejected the account.
//   - [ErrUndecided]: Verify could not decide.
//   - [*StoreError]: the store failed.
//   - [*api.Error]: any other failure of the platform or the network.
//
// API section: "Authentication" 3.
func (c *Connections) Connect(ctx context.Context, user string, code api.Secret) (tokenstore.Record, error) {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return tokenstore.Record{}, err
	}
	token, err := c.client.Exchange(ctx, code)
	if err != nil {
		return tokenstore.Record{}, err // pauses no refresh, because the code comes from the browser
	}
	a := &authorizing{conns: c, key: key, token: token}
	defer func() {
		if !a.stored { // for any reason, including a panic of Verify
			a.discard(ctx)
		}
	}()
	a.token.Clinic = c.findClinic(ctx, key, token.Access())
	record, err := a.save(ctx)
	if err != nil {
		return tokenstore.Record{}, err
	}
	a.stored = true
	return a.connected(ctx, record), nil
}

// authorizing is a newly granted token until it is stored. Neither the code nor the token can
// be requested again.
type authorizing struct {
	conns *Connections
	key   tokenstore.Key
	token oauth.Token

	previous oauth.ResourceOwner // the owner in the record to be replaced
	verified bool                // Verify accepted the account in place of previous

	stored  bool
	unknown bool // a failed Save may have stored the token
}

// save stores the token in place of the record against which it has checked the account. If
// the store fails or the record changes meanwhile, it starts over for a third of the LeaseTTL.
func (a *authorizing) save(ctx context.Context) (tokenstore.Record, error) {
	c := a.conns
	end := time.Now().Add(c.config.responseTime())
	for try := 1; ; try++ {
		record, err := a.replace(ctx)
		if err == nil || errors.Is(err, ErrOwnerRejected) || errors.Is(err, ErrUndecided) || errors.Is(err, tokenstore.ErrUnreadable) {
			return record, err
		}
		if !errors.Is(err, tokenstore.ErrConflict) {
			c.hooks.log(ctx, slog.LevelWarn, "could not store a new token", a.key, slog.Any("error", err), slog.Int("try", try))
		}
		if time.Now().After(end) || !pause(ctx, jitter.Backoff(try, firstRewrite, lastPoll)) {
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
	token := replacing(a.token, append(slices.Clone(before.Token.Replaced), grantOf(before.Token))...)
	save := func() (tokenstore.Record, error) { return c.store.SaveVersion(ctx, a.key, before.Version, token) }
	if unreadable {
		save = func() (tokenstore.Record, error) { return c.store.Save(ctx, a.key, token) }
	}
	record, err := save()
	if err != nil {
		a.unknown = a.unknown || !isContention(err)
		return tokenstore.Record{}, storeError("SaveVersion", a.key, err)
	}
	return record, nil
}

// verify calls Verify of the configuration, and again if the owner in the record has changed
// meanwhile.
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
		return fmt.Errorf("%w: %w", ErrOwnerRejected, err)
	}
	a.verified = true
	return nil
}

// verify calls Verify of the configuration.
func (r *records) verify(ctx context.Context, grant Authorization) error {
	if r.config.Verify == nil {
		return nil
	}
	return r.config.Verify(ctx, grant)
}

// connected reports the stored token and revokes replaced grants of other accounts. Replicas
// with such a token in memory get a 401 for their next call and then read the new token.
func (a *authorizing) connected(ctx context.Context, record tokenstore.Record) tokenstore.Record {
	c, token := a.conns, record.Token
	c.users.forget(a.key)
	c.brakes.forget(a.key)
	revoking, cancel := detach(ctx, c.config.responseTime()) // short: the user is waiting for the page
	defer cancel()
	record = c.revokeReplaced(revoking, record)
	c.hooks.log(ctx, slog.LevelInfo, "user connected", a.key, slog.Any("token", token))
	notify(ctx, &c.hooks, a.key, func(o *Observer) func(context.Context, Authorization) { return o.Connected },
		Authorization{Key: a.key, Owner: token.ResourceOwner, Previous: a.previous, Scopes: token.Scopes(), Clinic: token.Clinic})
	return record
}

// discard revokes a token that was not stored. After a Save with an unknown result it reads
// the record first, because a stored token must not be revoked.
func (a *authorizing) discard(ctx context.Context) {
	d := &disposal{conns: a.conns, key: a.key, token: a.token}
	if a.unknown {
		d.stored = func(ctx context.Context, record tokenstore.Record) { a.connected(ctx, record) }
	}
	d.now(ctx)
}

// RunFlow runs work for an authorization flow once in all replicas that share the
// [tokenstore.Store], and returns its result to every caller. ran reports whether this call
// ran work. Use it if the same callback can arrive twice, as after a double click: a platform
// may revoke the tokens of a code that is exchanged again.
//
// flow identifies the flow, such as a hash of its state. user is the user to connect, for
// errors and logs. work exchanges the code and returns a short text, which RunFlow stores for
// the other callers. If work has not used the code, it returns "", and the next caller runs
// its own work.
//
// All other callers wait for the result, up to the [Config].LeaseTTL of the replica that runs
// work.
//
// Errors:
//
//   - [tokenstore.ErrNoResult]: the other replica stored no result in time, for example
//     because it crashed.
//   - [*StoreError]: the store failed before work ran.
//   - [*api.ArgumentError]: flow is invalid.
//   - The error of ctx.
//
// API section: "Authentication" 3.
func (c *Connections) RunFlow(ctx context.Context, user, flow string, work func(context.Context) (result string)) (result string, ran bool, err error) {
	claim := tokenstore.FlowClaim{Environment: c.Environment(), Flow: flow, Owner: rand.Text()}
	key := c.Key(user)
	if err := errors.Join(key.Validate(), claim.Validate()); err != nil {
		return "", false, err
	}
	result, err = c.claimFlow(ctx, key, claim)
	if err != nil || result != "" {
		return result, false, err
	}
	result = work(ctx)
	if err := c.endFlow(ctx, key, claim, result); err != nil {
		c.hooks.log(ctx, slog.LevelWarn, "could not store the result of an authorization flow", key, slog.Any("error", err))
	}
	return result, true, nil
}

// claimFlow claims a flow, or waits for the result of its owner.
func (c *Connections) claimFlow(ctx context.Context, key tokenstore.Key, claim tokenstore.FlowClaim) (result string, err error) {
	began := time.Now()
	for try := 1; ; try++ {
		claiming, cancel := withStoreTimeout(ctx)
		result, err = c.store.ClaimFlow(claiming, claim, c.config.LeaseTTL)
		cancel()
		patience, failure := c.config.responseTime(), storeError("ClaimFlow", key, err)
		switch {
		case err == nil, errors.Is(err, tokenstore.ErrNoResult):
			return result, err
		case errors.Is(err, tokenstore.ErrLeased):
			patience, failure = c.config.LeaseTTL+storeTimeout, tokenstore.ErrNoResult
		}
		if time.Since(began) > patience {
			return "", failure
		}
		if !pause(ctx, jitter.Backoff(try, firstPoll, lastPoll)) {
			return "", ctx.Err()
		}
	}
}

// endFlow stores the result of a flow, even if ctx has ended. It retries a failing store, because the other
// callers wait for the result.
func (c *Connections) endFlow(ctx context.Context, key tokenstore.Key, claim tokenstore.FlowClaim, result string) error {
	ctx, cancel := detach(ctx, c.config.responseTime())
	defer cancel()
	for try := 1; ; try++ {
		err := c.store.EndFlow(ctx, claim, result)
		if err == nil || !pause(ctx, jitter.Backoff(try, firstRewrite, lastPoll)) {
			return storeError("EndFlow", key, err)
		}
	}
}
