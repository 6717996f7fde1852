package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// refreshTask replaces the token of one user, or finds that another replica has.
type refreshTask struct {
	conns *Connections
	key   tokenstore.Key

	// stale is the access token that must not be the result; empty where any
	// token will do that is not near its end.
	stale api.Secret

	// loaded is the record as the caller has just read it; nil where it has not.
	loaded *tokenstore.Record

	// retryMarked is set where a marked user's refresh token is tried again.
	retryMarked bool

	// claim is the lease that [Connections.KeepFresh] has taken already, on the
	// version that it wants replaced although it has not come to its end.
	claim *tokenstore.Lease

	asked bool // the platform has been asked for a new pair
}

// run carries the refresh out and records its failure, if it is a temporary one.
func (r *refreshTask) run(ctx context.Context) (tokenstore.Record, error) {
	info := Refresh{Key: r.key, Background: r.claim != nil}
	record, err := r.conns.hooks.observe(ctx, info, func(ctx context.Context) (tokenstore.Record, Outcome, error) {
		record, err := r.acquire(ctx)
		return record, r.outcome(err), err
	})
	var notTried *endpointError
	switch {
	case errors.As(err, &notTried): // the failure of others
	case err == nil:
		r.conns.circuit.succeeded(r.key, r.asked && !r.stale.IsZero())
		if r.asked {
			r.conns.learnClinic(ctx, record)
			r.conns.revokeReplacedLater(ctx, record)
		}
	case needsUser(err):
		if r.asked {
			r.conns.circuit.failed(r.key, err)
		}
	default:
		wait := r.conns.circuit.failed(r.key, err)
		r.conns.hooks.log(ctx, slog.LevelWarn, "token refresh failed for now", r.key, slog.Any("error", err), slog.Duration("pause", wait))
	}
	return record, err
}

// outcome says how the refresh ended.
func (r *refreshTask) outcome(err error) Outcome {
	var refusal *oauth.ConfigError
	switch {
	case err == nil && r.asked:
		return OutcomeRefreshed
	case err == nil:
		return OutcomeFound
	case needsUser(err):
		return OutcomeReauthorize
	case isStoreError(err):
		return OutcomeStoreFailed
	case errors.As(err, &refusal):
		return OutcomeMisconfigured
	}
	return OutcomeFailed
}

// acquire looks at the record until it holds a token that will do, or until the
// lease on it is this replica's. A replica that died with the lease keeps it
// waiting until the lease ends. A store that fails meanwhile is asked again: many
// callers may be waiting.
func (r *refreshTask) acquire(ctx context.Context) (record tokenstore.Record, err error) {
	if r.claim != nil && r.conns.calls.underWay(callKey{key: r.key, kind: commitCall}) != nil {
		r.conns.release(ctx, *r.claim) // it keeps the pair from being written
	}
	if record, err = r.conns.awaitPendingCommit(r.key); err != nil || r.satisfiedBy(record) {
		return record, err
	}
	// One lease for a replica that died, and one for the one that came after it.
	err = contend(ctx, r.key, 2*r.conns.config.LeaseTTL+storeTimeout, func() (done bool, err error) {
		record, done, err = r.tryOnce(ctx)
		return done, err
	})
	return record, err
}

// tryOnce reads the record and refreshes its token if that is needed. done is false if
// the store failed or others have the lease.
func (r *refreshTask) tryOnce(ctx context.Context) (record tokenstore.Record, done bool, err error) {
	record, err = r.look(ctx)
	switch {
	case isStoreError(err):
		return tokenstore.Record{}, false, err
	case err != nil && !(r.retryMarked && r.conns.mayBeMistake(record)), r.satisfiedBy(record):
		return record, true, err
	}
	record, done, err = r.attempt(ctx, record)
	if !done && !isContention(err) {
		err = storeError("Lease", r.key, err)
	}
	return record, done, err
}

// look returns the record, at first as the caller has read it: if that is out of
// date there will be no lease on it.
func (r *refreshTask) look(ctx context.Context) (tokenstore.Record, error) {
	if loaded := r.loaded; loaded != nil {
		r.loaded = nil
		return *loaded, nil
	}
	return r.conns.load(ctx, r.key)
}

// satisfiedBy reports a record that makes the refresh unnecessary.
func (r *refreshTask) satisfiedBy(record tokenstore.Record) bool {
	token := record.Token
	if token.AccessToken.IsZero() || record.State != tokenstore.StateActive {
		return false
	}
	if r.claim != nil {
		return record.Version != r.claim.Version
	}
	cached := newCachedToken(token, 0)
	if token.RefreshToken.IsZero() && !token.ExpiresAt.IsZero() && cached.valid(time.Now()) {
		return true // there is no other token before its end, and a single 401 may be a mistake
	}
	if r.stale.IsZero() {
		return cached.fresh(time.Now())
	}
	return token.AccessToken != r.stale && cached.alive(time.Now())
}

// attempt takes the lease on the record and refreshes its token. done is false if it
// cannot get the lease, or lost it to a peer. If a 401 has forced a refresh just now, it returns
// record unchanged.
func (r *refreshTask) attempt(ctx context.Context, record tokenstore.Record) (result tokenstore.Record, done bool, err error) {
	if !r.stale.IsZero() && !r.conns.circuit.mayForce(r.key) {
		return record, true, nil
	}
	if r.claim == nil { // a wait for the limit may outlast a lease
		if ctx, err = r.conns.client.Admit(ctx); err != nil {
			return tokenstore.Record{}, true, err
		}
	}
	leased, err := r.conns.acquireLease(ctx, record, r.claim)
	if err != nil {
		return tokenstore.Record{}, false, err
	}
	ended := false
	defer func() {
		if !ended { // by a panic, perhaps of a transport: others must not wait for the lease
			r.conns.release(ctx, leased.lease)
		}
	}()
	result, err = r.replace(ctx, leased)
	ended = true
	if errors.Is(err, errLeaseLost) {
		r.asked = false // the result will be the peer's
		return tokenstore.Record{}, false, err
	}
	return result, true, err
}

// replace does what the lease was taken for.
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
		return r.conns.commit(ctx, leased, token)
	case isInvalidGrant(err):
		return r.conns.refused(ctx, leased, err)
	case errors.Is(err, oauth.ErrOwnerChanged):
		r.conns.hooks.log(ctx, slog.LevelError, "a refresh returned a token of another account, which was not stored", r.key)
		return r.conns.markReauthorize(ctx, leased.lease, leased.Record, tokenstore.ReasonOwnerChanged, err)
	}
	r.conns.release(ctx, leased.lease)
	return tokenstore.Record{}, err
}

// exchange asks the platform for the next pair. Where the answer is lost it asks
// once more with the same refresh token: the platform may have taken the first
// request, and then still knows the old token until the new one is used
// (assumption), or it has not. Each try gets a third of the lease; the last
// third is for the store.
func (c *Connections) exchange(ctx context.Context, leased leasedRecord) (oauth.Token, error) {
	if err := c.circuit.admit(); err != nil {
		return oauth.Token{}, err
	}
	ctx, cancel := context.WithDeadline(ctx, leased.since.Add(2*c.config.answerTime()))
	defer cancel()
	token, err := c.exchangeOnce(ctx, leased.Token)
	if errors.Is(err, api.ErrMaybeApplied) && retryAfter(err) <= 0 && ctx.Err() == nil {
		c.hooks.log(ctx, slog.LevelWarn, "the answer of a refresh was lost; trying the old token again", leased.Key, slog.Any("error", err))
		time.Sleep(jitteredBackoff(1, firstPoll, lastPoll))
		token, err = c.exchangeOnce(ctx, leased.Token)
	}
	if refusal, isNew := c.circuit.answered(leased.Key, err); refusal != nil {
		c.hooks.logger.LogAttrs(ctx, slog.LevelError, "tokens: the platform refuses the application; refreshing pauses for all users",
			slog.String("environment", c.Environment().String()), slog.Any("error", refusal), slog.Duration("pause", configPause))
		if isNew {
			notify(ctx, &c.hooks, leased.Key, func(o *Observer) func(context.Context, ConfigErrorDetected) { return o.ConfigErrorDetected },
				ConfigErrorDetected{Err: refusal, Until: time.Now().Add(configPause)})
		}
	}
	return token, err
}

// exchangeOnce sends one refresh request. Of a refused refresh token it returns
// the platform's answer: whether the user is marked for it is decided by the caller.
func (c *Connections) exchangeOnce(ctx context.Context, old oauth.Token) (oauth.Token, error) {
	ctx, cancel := c.withAnswerTimeout(ctx)
	defer cancel()
	token, err := c.client.Refresh(ctx, old)
	var answer *api.Error
	if needsUser(err) && errors.As(err, &answer) {
		return oauth.Token{}, answer
	}
	return token, err
}

// refused handles a rejected refresh token. A peer may have spent it and stored the next one.
// Otherwise the second rejection marks the user: the first may be a mistake of the platform.
func (c *Connections) refused(ctx context.Context, leased leasedRecord, cause error) (tokenstore.Record, error) {
	reading, cancel := withStoreTimeout(ctx)
	defer cancel()
	current, err := c.read(reading, leased.Key)
	if err == nil && current.Token.AccessToken != leased.Token.AccessToken {
		return current, c.validate(current)
	}
	if time.Since(leased.since) > c.config.LeaseTTL {
		return tokenstore.Record{}, errLeaseLost // a peer may be at work, which has spent the refresh token
	}
	if leased.State == tokenstore.StateActive {
		if alarm, until := c.circuit.refused(leased.Key, cause); alarm {
			c.hooks.logger.LogAttrs(ctx, slog.LevelError, "tokens: the platform rejects the refresh tokens of one user after another (were scopes added to the application?); refreshing in the background pauses",
				slog.String("environment", c.Environment().String()), slog.Int("users", refusedUsers), slog.Time("until", until))
			notify(ctx, &c.hooks, leased.Key, func(o *Observer) func(context.Context, MassRejection) { return o.MassRejection },
				MassRejection{Environment: c.Environment(), Users: refusedUsers, Window: refusalWindow, Until: until})
		}
		if age := time.Since(leased.Token.RejectedAt); age < firstRetry || leased.Token.RejectedAt.IsZero() {
			c.recordRejection(ctx, leased, age)
			return tokenstore.Record{}, fmt.Errorf("tokens: the refresh token of %s was rejected and is retried before the user is marked: %w", leased.Key, cause)
		}
	}
	return c.markReauthorize(ctx, leased.lease, leased.Record, tokenstore.ReasonInvalidGrant, cause)
}

// recordRejection stores the time of the first rejection, for all replicas, and ends the lease. A
// time in the future shows that the clocks differ, and is replaced.
func (c *Connections) recordRejection(ctx context.Context, leased leasedRecord, age time.Duration) {
	if age >= 0 && age < firstRetry {
		c.release(ctx, leased.lease)
		return
	}
	writing, cancel := withStoreTimeout(ctx)
	defer cancel()
	token := leased.Token
	token.RejectedAt = time.Now().Round(0)
	if _, err := c.store.Commit(writing, leased.lease, token); err != nil && !isContention(err) {
		c.hooks.log(ctx, slog.LevelWarn, "could not store that a refresh token was rejected", leased.Key, slog.Any("error", storeError("Commit", leased.Key, err)))
		c.release(ctx, leased.lease)
	}
}
