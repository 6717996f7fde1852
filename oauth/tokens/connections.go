package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Connections are the users of one application in one environment: a client bound
// to the store that holds their tokens. Make one when the program starts and share
// it: that a user's token is refreshed once at a time in a process depends on it.
// It is safe for concurrent use.
type Connections struct {
	config  Config
	client  *oauth.Client
	store   tokenstore.Store
	hooks   hooks
	calls   callGroup
	cache   tokenCache
	circuit circuit
}

// NewConnections checks config and returns the connections. It sends and reads
// nothing. Errors are [*api.ArgumentError] and name the field.
func NewConnections(config Config) (*Connections, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	c := &Connections{
		config: config, client: config.Client, store: config.Store,
		hooks:   hooks{observers: config.Observers, logger: config.Client.Logger()},
		circuit: newCircuit(),
	}
	c.cache.limit = cachedUsers
	return c, nil
}

// forget drops the token of a user in memory after it was replaced, revoked or marked:
// the next call of every source reads the store.
func (c *Connections) forget(key tokenstore.Key) { c.cache.remove(key.User, c.calls.outdate(key)) }

// Client returns the client of the application.
func (c *Connections) Client() *oauth.Client { return c.client }

// Environment returns the environment the users belong to.
func (c *Connections) Environment() api.Environment { return c.client.Environment() }

// Key returns the key under which the [tokenstore.Store] holds the token of user.
func (c *Connections) Key(user string) tokenstore.Key {
	return tokenstore.Key{Environment: c.Environment(), User: user}
}

// String names the environment.
func (c *Connections) String() string { return "tokens.Connections{" + c.Environment().String() + "}" }

// Format prints [Connections.String] for every verb.
func (c *Connections) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue is [Connections.String].
func (c *Connections) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText is [Connections.String], for encoders that would look inside.
func (c *Connections) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Record returns what the store holds of user. It asks nothing else and changes
// nothing; [Connections.Usable] says what the record means.
//
// Errors: [tokenstore.ErrNoRecord]; [*StoreError].
func (c *Connections) Record(ctx context.Context, user string) (tokenstore.Record, error) {
	key := c.Key(user)
	if err := key.Validate(); err != nil {
		return tokenstore.Record{}, err
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	record, err := c.store.Load(ctx, key)
	if errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, err
	}
	return record, storeError("Load", key, err)
}

// Usable reports why the token of a record must not be used, as far as the record
// shows: a [*ReauthorizeError] for a user who has to authorize again, and
// [api.ErrWrongEnvironment]. It asks neither store nor platform and changes nothing.
func (c *Connections) Usable(record tokenstore.Record) error {
	if err := c.validate(record); err != nil {
		return err
	}
	if c.client.ScopesAddedSince(record.Token) {
		return c.reauthorize(record.Key, tokenstore.ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return nil
}

// PendingCommits counts the refreshed token pairs that the store does not take and
// that live in this process only. It is 0 in a healthy program: let a health
// check look at it, and do not end the process while it is not.
func (c *Connections) PendingCommits() int { return len(c.calls.all()[commitCall]) }

// Close waits until no refresh is under way, every new token pair is stored, and every
// token that was not stored is revoked. Call it before the program ends, after the last
// call. If ctx ends first, it returns an error that matches ctx's and counts the open work.
func (c *Connections) Close(ctx context.Context) error {
	for {
		open := c.calls.all()
		var next *call
		for _, calls := range open {
			next = calls[0]
		}
		if next == nil {
			return nil
		}
		select {
		case <-next.done:
		case <-ctx.Done():
			return fmt.Errorf("tokens: closed with %d token refreshes open, %d token pairs not stored and %d tokens not revoked: %w",
				len(open[loadCall])+len(open[refreshCall]), len(open[commitCall]), len(open[disposeCall]), ctx.Err())
		}
	}
}

// Paused returns until when refreshing in the background pauses in this process, and true if
// it does: because the platform refuses one user after another ([BreakerTripped]) or the
// application ([ConfigErrorDetected]). It is made for a health check.
func (c *Connections) Paused() (until time.Time, paused bool) {
	until = c.circuit.pausedUntil()
	return until, time.Now().Before(until)
}

// storeTimeout ends a call of a store that would never come back. A store that is
// slow for a moment is waited for: for how long is up to the callers, who leave
// with their contexts.
const storeTimeout = time.Minute

func withStoreTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storeTimeout)
}

// withAnswerTimeout bounds one call of the platform.
func (c *Connections) withAnswerTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.config.answerTime())
}

// load reads the user's record; an error says that its token must not be used.
func (c *Connections) load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	if err := key.Validate(); err != nil {
		return tokenstore.Record{}, err
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	record, err := c.read(ctx, key)
	if err != nil {
		return tokenstore.Record{}, err
	}
	if err := c.validate(record); err != nil {
		return record, err
	}
	if c.client.ScopesAddedSince(record.Token) {
		return c.markScopesExtended(ctx, record)
	}
	return record, nil
}

// read is the store's Load with this package's errors.
func (c *Connections) read(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	record, err := c.store.Load(ctx, key)
	if errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, c.reauthorize(key, tokenstore.ReasonNotConnected, oauth.ResourceOwner{}, nil)
	}
	return record, storeError("Load", key, err)
}

// validate reports why a stored token must not be used.
func (c *Connections) validate(record tokenstore.Record) error {
	switch {
	case record.Token.Environment != c.Environment():
		return wrongEnvironment(record.Token.Environment, c.Environment())
	case record.State != tokenstore.StateActive: // a state that this version does not know permits no refresh
		mark := c.reauthorize(record.Key, record.Reason, record.Token.ResourceOwner, nil)
		if c.mayBeMistake(record) {
			mark.retryFrom = retryFrom(record.UpdatedAt)
		}
		return mark
	}
	return nil
}

// retryFrom returns when the refresh token of a user who was marked at the given time, by the
// store's clock, may be tried again. A time in the future shows that the clocks differ: then
// only the waits of this process count.
func retryFrom(marked time.Time) time.Time {
	if now := time.Now(); marked.After(now) {
		return now
	}
	return marked.Add(firstRetry)
}

// mayBeMistake reports a mark that may be wrong: because of a mistake of the platform,
// which the API gives no reason to exclude, or of a configuration that has been corrected.
func (c *Connections) mayBeMistake(record tokenstore.Record) bool {
	if record.State == tokenstore.StateActive || record.Token.Environment != c.Environment() || record.Token.RefreshToken.IsZero() {
		return false
	}
	return record.Reason == tokenstore.ReasonInvalidGrant || record.Reason == tokenstore.ReasonOwnerChanged || (record.Reason == tokenstore.ReasonScopesExtended && !c.client.ScopesAddedSince(record.Token))
}

// reauthorize makes the error; cause may be nil.
func (c *Connections) reauthorize(key tokenstore.Key, reason tokenstore.Reason, owner oauth.ResourceOwner, cause error) *ReauthorizeError {
	return &ReauthorizeError{Key: key, Reason: reason, Owner: owner, client: c.client, cause: cause}
}

// needsUser reports errors that go away only when the user authorizes again.
func needsUser(err error) bool { return errors.Is(err, api.ErrReauthorize) }

// markScopesExtended marks a user whose token lacks scopes that the application has
// since been given. Where another owner holds the lease, the next caller will mark.
func (c *Connections) markScopesExtended(ctx context.Context, record tokenstore.Record) (tokenstore.Record, error) {
	lease := tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: rand.Text()}
	if _, err := c.store.Lease(ctx, lease, c.config.LeaseTTL); err != nil {
		return tokenstore.Record{}, c.reauthorize(record.Key, tokenstore.ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return c.markReauthorize(ctx, lease, record, tokenstore.ReasonScopesExtended, nil)
}

// markReauthorize marks a user who has to authorize again, and raises the event if
// that is new. If the token was replaced meanwhile, that token is returned and the
// user is not marked. If a peer is replacing it, the error is errLeaseLost.
func (c *Connections) markReauthorize(ctx context.Context, lease tokenstore.Lease, old tokenstore.Record, reason tokenstore.Reason, cause error) (tokenstore.Record, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	owner := old.Token.ResourceOwner
	verdict := c.reauthorize(lease.Key, reason, owner, cause)
	_, err := c.store.Fail(ctx, lease, reason)
	switch {
	case err == nil && old.State != tokenstore.StateActive:
		return tokenstore.Record{}, verdict
	case err == nil:
		c.forget(lease.Key)
		c.hooks.log(ctx, slog.LevelInfo, "user must authorize again", lease.Key, slog.String("reason", string(reason)))
		c.hooks.notify(ctx, lease.Key, func(o *Observer) {
			if o.MustReauthorize != nil {
				o.MustReauthorize(ctx, MustReauthorize{Key: lease.Key, Reason: reason, Owner: owner})
			}
		})
		return tokenstore.Record{}, verdict
	case !isContention(err):
		// The verdict stands; without the mark the platform is asked again.
		c.hooks.log(ctx, slog.LevelError, "could not store that a user must authorize again", lease.Key, slog.Any("error", storeError("Fail", lease.Key, err)))
		return tokenstore.Record{}, verdict
	}
	current, err := c.read(ctx, lease.Key)
	switch {
	case err == nil && current.Token.AccessToken != old.Token.AccessToken:
		return current, c.validate(current)
	case err == nil && current.State == tokenstore.StateActive && (reason == tokenstore.ReasonInvalidGrant || reason == tokenstore.ReasonOwnerChanged):
		// A peer has taken the lease and may have spent the refresh token: its result decides.
		return tokenstore.Record{}, errLeaseLost
	}
	return tokenstore.Record{}, verdict
}

// errLeaseLost is the result of a refresh whose lease ended before it could mark the user.
var errLeaseLost = fmt.Errorf("tokens: the lease ended before the refresh: %w", tokenstore.ErrLeased)
