package tokens

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// refreshTask replaces the token of one user, or finds the token that another replica has
// stored.
type refreshTask struct {
	conns *Connections
	key   tokenstore.Key

	// stale is the access token that must not be the result. If it is empty, any token that is
	// not near its expiry will do.
	stale api.Secret

	// loaded is the record that the caller has just read, or nil.
	loaded *tokenstore.Record

	// claim is the lease that [Connections.KeepFresh] has already taken. It wants this version
	// replaced although the token has not expired. Nil for the refresh of a call.
	claim *tokenstore.Lease

	asked bool // the platform was asked for a new pair
}

// run runs the refresh and records a temporary failure.
func (r *refreshTask) run(ctx context.Context) (tokenstore.Record, error) {
	info := Refresh{Key: r.key, Background: r.claim != nil}
	record, err := r.conns.hooks.observe(ctx, info, func(ctx context.Context) (tokenstore.Record, Outcome, error) {
		record, err := r.acquire(ctx)
		return record, r.outcome(err), err
	})
	var notTried *endpointError
	switch {
	case errors.As(err, &notTried): // the failure of other users
	case err == nil:
		r.conns.brakes.succeeded(r.key, r.asked && !r.stale.IsZero())
		if r.asked {
			r.conns.learnClinic(ctx, record)
			r.conns.revokeReplacedLater(ctx, record)
		}
	case needsUser(err):
		if r.asked {
			r.conns.brakes.failed(r.key, err)
		}
	default:
		wait := r.conns.brakes.failed(r.key, err)
		r.conns.hooks.log(ctx, slog.LevelWarn, "token refresh failed temporarily", r.key, slog.Any("error", err), slog.Duration("pause", wait))
	}
	return record, err
}

// outcome returns the outcome of the refresh.
func (r *refreshTask) outcome(err error) Outcome {
	var rejection *oauth.ConfigError
	switch {
	case err == nil && r.asked:
		return OutcomeRefreshed
	case err == nil:
		return OutcomeFound
	case needsUser(err):
		return OutcomeReauthorize
	case isStoreError(err):
		return OutcomeStoreFailed
	case errors.As(err, &rejection):
		return OutcomeMisconfigured
	}
	return OutcomeFailed
}

// acquire waits until the record has a suitable token, or refreshes the token once this
// replica has the lease. If a replica has crashed with the lease, acquire waits until the
// lease expires. It retries a store that fails meanwhile, because many callers may be waiting.
func (r *refreshTask) acquire(ctx context.Context) (record tokenstore.Record, err error) {
	if r.claim != nil && r.conns.users.committing(r.key) != nil {
		r.conns.release(ctx, *r.claim) // the claim blocks the write of the pair
	}
	if record, err = r.conns.awaitPendingCommit(ctx, r.key); err != nil || r.satisfiedBy(record) {
		return record, err
	}
	// One lease for a crashed replica, and one for the replica after it.
	err = contend(ctx, r.key, 2*r.conns.config.LeaseTTL+storeTimeout, func() (done bool, err error) {
		record, done, err = r.tryOnce(ctx)
		return done, err
	})
	return record, err
}

// tryOnce reads the record and refreshes its token if needed. done is false if the store
// failed or others have the lease.
func (r *refreshTask) tryOnce(ctx context.Context) (record tokenstore.Record, done bool, err error) {
	record, err = r.look(ctx)
	switch {
	case isStoreError(err):
		return tokenstore.Record{}, false, err
	case err != nil && !mayRetry(err), r.satisfiedBy(record):
		return record, true, err
	}
	record, done, err = r.attempt(ctx, record)
	if !done && !isContention(err) {
		err = storeError("Lease", r.key, err)
	}
	return record, done, err
}

// look returns the record. The first time, it returns the record of the caller: if that is
// outdated, the lease fails.
func (r *refreshTask) look(ctx context.Context) (tokenstore.Record, error) {
	if loaded := r.loaded; loaded != nil {
		r.loaded = nil
		return *loaded, r.conns.validate(*loaded)
	}
	return r.conns.load(ctx, r.key)
}

// satisfiedBy reports whether record makes the refresh unnecessary.
func (r *refreshTask) satisfiedBy(record tokenstore.Record) bool {
	token := record.Token
	if token.AccessToken.IsZero() || record.State != tokenstore.StateActive {
		return false
	}
	if r.claim != nil {
		return record.Version != r.claim.Version
	}
	cached := newCachedToken(token)
	if token.RefreshToken.IsZero() && !token.ExpiresAt.IsZero() && cached.valid(time.Now()) {
		return true // no other token replaces it, and a single 401 may be a fault
	}
	if r.stale.IsZero() {
		return cached.fresh(time.Now())
	}
	return token.AccessToken != r.stale && cached.alive(time.Now())
}

// attempt takes the lease on the record and refreshes its token. done is false if it cannot
// get the lease, or lost it to a peer. If a 401 has forced a refresh in the last 2 minutes,
// attempt returns record unchanged.
func (r *refreshTask) attempt(ctx context.Context, record tokenstore.Record) (result tokenstore.Record, done bool, err error) {
	if !r.stale.IsZero() && !r.conns.brakes.mayForce(r.key) {
		return record, true, nil
	}
	if r.claim == nil { // wait before the lease, because the limiter may take longer than it lasts
		// Callers of any priority may join this refresh.
		if ctx, err = r.conns.client.Admit(api.ContextWithPriority(ctx, api.PriorityInteractive)); err != nil {
			return tokenstore.Record{}, true, err
		}
	}
	leased, err := r.conns.acquireLease(ctx, record, r.claim)
	if err != nil {
		return tokenstore.Record{}, false, err
	}
	ended := false
	defer func() {
		if !ended { // a panic, such as of a custom transport, must not block the lease
			r.conns.release(ctx, leased.lease)
		}
	}()
	result, err = r.replace(ctx, leased)
	ended = true
	if errors.Is(err, errLeaseLost) {
		r.asked = false // the result comes from the peer
		return tokenstore.Record{}, false, err
	}
	return result, true, err
}

// replace refreshes the token of a leased record and stores the result.
func (r *refreshTask) replace(ctx context.Context, leased leasedRecord) (tokenstore.Record, error) {
	if leased.Token.RefreshToken.IsZero() {
		return r.conns.markReauthorize(ctx, leased.lease, leased.Record, tokenstore.ReasonInvalidGrant, nil)
	}
	r.asked = true
	token, err := r.conns.exchange(ctx, leased)
	switch {
	case err == nil:
		if r.claim != nil { // no call needed the token
			token.UsedAt = leased.Token.UsedAt
		}
		return r.conns.commit(ctx, leased, token, "")
	case isInvalidGrant(err):
		return r.rejected(ctx, leased, err)
	case errors.Is(err, oauth.ErrOwnerChanged):
		r.conns.hooks.log(ctx, slog.LevelError, "a refresh returned a token of another account; it was not stored", r.key)
		return r.conns.markReauthorize(ctx, leased.lease, leased.Record, tokenstore.ReasonOwnerChanged, err)
	}
	r.conns.release(ctx, leased.lease)
	return tokenstore.Record{}, err
}

// exchange requests the next pair from the platform. If the response is lost, it retries once
// with the same refresh token. The platform may have processed the first request and then
// still accepts the old token until the new one is used (assumption), or it has not processed
// it. Each attempt gets a third of the lease. The last third is for the store.
func (c *Connections) exchange(ctx context.Context, leased leasedRecord) (oauth.Token, error) {
	if err := c.brakes.admit(); err != nil {
		return oauth.Token{}, err
	}
	ctx, cancel := context.WithDeadline(ctx, leased.since.Add(2*c.config.responseTime()))
	defer cancel()
	token, err := c.exchangeOnce(ctx, leased.Token)
	if errors.Is(err, api.ErrMaybeApplied) && retryAfter(err) <= 0 && ctx.Err() == nil {
		c.hooks.log(ctx, slog.LevelWarn, "lost the response to a token refresh; retrying with the same refresh token", leased.Key, slog.Any("error", err))
		if pause(ctx, jitter.Backoff(1, firstPoll, lastPoll)) {
			token, err = c.exchangeOnce(ctx, leased.Token)
		}
	}
	if rejection, isNew := c.brakes.responded(leased.Key, err); rejection != nil {
		c.hooks.logger.LogAttrs(ctx, slog.LevelError, "tokens: the platform rejects the application; refreshes pause for all users",
			slog.String("environment", c.Environment().String()), slog.Any("error", rejection), slog.Duration("pause", configPause))
		if isNew {
			notify(ctx, &c.hooks, leased.Key, func(o *Observer) func(context.Context, ConfigErrorDetected) { return o.ConfigErrorDetected },
				ConfigErrorDetected{Err: rejection, Until: time.Now().Add(configPause)})
		}
	}
	return token, err
}

// exchangeOnce sends one refresh request. For a rejected refresh token it returns the error of
// the platform, because the caller decides whether to mark the user.
func (r *records) exchangeOnce(ctx context.Context, old oauth.Token) (oauth.Token, error) {
	ctx, cancel := r.withResponseTimeout(ctx)
	defer cancel()
	token, err := r.client.Refresh(ctx, old)
	var response *api.Error
	if needsUser(err) && errors.As(err, &response) {
		return oauth.Token{}, response
	}
	return token, err
}

// rejected handles a rejected refresh token. If a peer has spent it and stored the next pair,
// rejected returns that pair. Otherwise two witnesses mark the user, because one may be a fault
// of the platform: the token endpoint twice, a minute apart, or the token endpoint and the
// API, if it has rejected the access token before its expiry. A fault of the platform's login
// affects both, so these two only count if the platform rejects no other user.
func (r *refreshTask) rejected(ctx context.Context, leased leasedRecord, cause error) (tokenstore.Record, error) {
	c, revoked := r.conns, leased.Token.AccessToken == r.stale && time.Now().Before(leased.Token.ExpiresAt)
	reading, cancel := withStoreTimeout(ctx)
	defer cancel()
	current, err := c.read(reading, leased.Key)
	if err == nil && current.Token.AccessToken != leased.Token.AccessToken {
		return current, c.validate(current)
	}
	if time.Since(leased.since) > c.config.LeaseTTL {
		return tokenstore.Record{}, errLeaseLost // a peer may have the lease and have spent the refresh token
	}
	if leased.State == tokenstore.StateActive {
		alone, alarm, until := c.brakes.rejected(leased.Key, cause)
		if alarm {
			c.hooks.logger.LogAttrs(ctx, slog.LevelError, "tokens: the platform rejects the refresh tokens of one user after another (were scopes added to the application?); refreshes in the background pause",
				slog.String("environment", c.Environment().String()), slog.Int("users", rejectedUsers), slog.Time("until", until))
			notify(ctx, &c.hooks, leased.Key, func(o *Observer) func(context.Context, MassRejection) { return o.MassRejection },
				MassRejection{Environment: c.Environment(), Users: rejectedUsers, Window: rejectionWindow, Until: until})
		}
		if !(revoked && alone && c.acceptsOther(ctx, leased.Key)) && c.postponeMark(ctx, leased) {
			return tokenstore.Record{}, &rejectedError{key: leased.Key, forced: !r.stale.IsZero(), err: cause}
		}
	}
	if revoked {
		leased.Token.ExpiresAt = time.Now().Round(0)
	}
	return c.markReauthorize(ctx, leased.lease, leased.Record, tokenstore.ReasonInvalidGrant, cause)
}

// acceptsOther asks the API with the token of another user whether it accepts valid tokens. It
// returns true if it cannot ask, for example because the token lacks the scope.
func (c *Connections) acceptsOther(ctx context.Context, key tokenstore.Key) bool {
	if c.config.Clinic == nil {
		return true
	}
	other, token := c.users.other(key.User)
	if token == nil { // such as in a new process
		other, token = c.storedOther(ctx, key.User)
	}
	if token == nil {
		return true
	}
	ctx, cancel := c.withResponseTimeout(ctx)
	defer cancel()
	_, err := c.config.Clinic(ctx, c.Key(other), token.token)
	return err == nil
}

// storedOther returns one of the first users of the store with a valid token, or nil.
func (r *records) storedOther(ctx context.Context, user string) (other string, token *cachedToken) {
	ctx, cancel := r.withResponseTimeout(ctx)
	defer cancel()
	active, _ := r.store.List(ctx, tokenstore.Listing{Environment: r.client.Environment(), State: tokenstore.StateActive, Limit: 20})
	for _, listed := range active {
		if listed.Key.User == user || !newCachedToken(listed.Token).alive(time.Now()) {
			continue
		}
		if record, err := r.store.Load(ctx, listed.Key); err == nil {
			return listed.Key.User, newCachedToken(record.Token)
		}
	}
	return "", nil
}

// confirms reports whether r follows a 401, unlike the refresh with the error err.
func (r *refreshTask) confirms(err error) bool {
	var first *rejectedError
	return !r.stale.IsZero() && errors.As(err, &first) && !first.forced
}

// postponeMark stores the time of the first rejection for all replicas, and ends the lease. It
// returns false if the first rejection was a minute ago.
func (r *records) postponeMark(ctx context.Context, leased leasedRecord) bool {
	token := leased.Token
	switch {
	case isUnrejected(token):
		token.RejectedAt = time.Now().Round(0)
	case time.Since(token.RejectedAt) < firstRetry:
		r.release(ctx, leased.lease)
		return true
	default:
		return false
	}
	writing, cancel := withStoreTimeout(ctx)
	defer cancel()
	if _, err := r.store.Commit(writing, leased.lease, token); err != nil && !isContention(err) {
		r.hooks.log(ctx, slog.LevelWarn, "could not store the rejection of a refresh token", leased.Key, slog.Any("error", storeError("Commit", leased.Key, err)))
		r.release(ctx, leased.lease)
	}
	return true
}
