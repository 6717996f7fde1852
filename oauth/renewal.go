package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// renewal replaces the token of one user, or finds that someone else has.
type renewal struct {
	client *Client
	slot   slot

	// stale is the access token that must not be the result; empty where any
	// token will do that is not near its end.
	stale api.Secret

	// retry is set where a marked user's refresh token is tried again.
	retry bool

	// claim is the lease that a refresher has taken already, on the version
	// that it wants replaced although it has not come to its end.
	claim *Lease

	asked bool // the platform has been asked for a new pair
}

// Waits between looks at a record that another replica is refreshing.
const (
	firstPoll = 50 * time.Millisecond
	lastPoll  = time.Second
)

// run carries the renewal out and notes its failure, if it is one that passes.
func (r *renewal) run(ctx context.Context) (Record, error) {
	record, err := r.observed(ctx, r.contend)
	var spared *failingError
	switch {
	case errors.As(err, &spared): // it was not this user's turn
	case err == nil:
		r.client.cooling.clear(r.slot)
		r.client.retrying.clear(r.slot)
	case needsUser(err):
		r.client.cooling.clear(r.slot)
		if r.asked {
			r.client.retrying.failed(r.slot, err)
		}
	default:
		wait := r.client.cooling.failed(r.slot, err)
		r.client.log(ctx, slog.LevelWarn, "token refresh failed for now", r.slot.key, slog.Any("error", err), slog.Duration("pause", wait))
	}
	return record, err
}

// contend looks at the record until it holds a token that will do, or until the
// lease on it is this replica's. A replica that died with the lease keeps it
// waiting until the lease ends.
func (r *renewal) contend(ctx context.Context) (Record, error) {
	if record, err := r.settle(); err != nil || r.content(record) {
		return record, err
	}
	// One lease for a replica that died, and one for the one that came after it.
	end := time.Now().Add(2*r.client.config.LeaseTTL + storeTime)
	for try := 1; ; try++ {
		record, err := r.client.load(ctx, r.slot)
		if (err != nil && !(r.retry && r.client.retriable(record))) || r.content(record) {
			return record, err
		}
		record, done, err := r.attempt(ctx, record)
		switch {
		case done:
			return record, err
		case !isContention(err):
			return Record{}, storeError("Lease", r.slot.key, err)
		case time.Now().After(end):
			return Record{}, fmt.Errorf("dispensary: no turn to refresh the token of %s: %w", r.slot.key, err)
		}
		time.Sleep(backoff(try, firstPoll, lastPoll)) // a flight belongs to no caller who could leave
	}
}

// attempt does the work if the lease on the record can be had; done is false where
// it cannot. Where the refresh was forced by a 401 and new tokens turn out to be
// refused too, the record stays as it is.
func (r *renewal) attempt(ctx context.Context, record Record) (result Record, done bool, err error) {
	if r.stale != "" {
		select {
		case r.client.forcing.turns <- struct{}{}:
		case <-ctx.Done():
			return Record{}, true, ctx.Err()
		}
		defer func() { <-r.client.forcing.turns }()
		if r.client.forcing.paused(r.slot) {
			return record, true, nil
		}
	}
	held, err := r.lease(ctx, record)
	if err != nil {
		return Record{}, false, err
	}
	ended := false
	defer func() {
		if !ended { // by a panic, perhaps of a transport; nobody is to wait for it
			held.release(ctx)
		}
	}()
	result, err = held.work(ctx)
	ended = true
	return result, true, err
}

// content reports a record that makes the renewal unnecessary.
func (r *renewal) content(record Record) bool {
	token := record.Token
	if token.AccessToken == "" || record.State != StateActive {
		return false
	}
	if r.claim != nil {
		return record.Version != r.claim.Version
	}
	h := r.client.hold(token, 0)
	if r.stale == "" {
		return h.fresh(time.Now())
	}
	return token.AccessToken != r.stale && h.alive(time.Now())
}

// isContention is true of what a store answers when others are at the record.
func isContention(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrLeased) || errors.Is(err, ErrNoRecord)
}

// leased is a renewal whose turn it is.
type leased struct {
	*renewal
	lease Lease
	since time.Time // not later than the lease's beginning
	old   Record    // as it was leased
}

// lease takes the lease on a record. One that a slow store took so long for that
// too little of it is left is taken anew, unless somebody else has been quicker.
func (r *renewal) lease(ctx context.Context, record Record) (*leased, error) {
	l := &leased{
		renewal: r,
		lease:   Lease{Key: record.Key, Version: record.Version, Owner: rand.Text()},
	}
	if r.claim != nil {
		l.lease.Owner = r.claim.Owner // prolongs the claim
	}
	ctx, cancel := r.client.limitStore(ctx)
	defer cancel()
	for {
		l.since = time.Now()
		current, err := r.slot.store.Lease(ctx, l.lease, r.client.config.LeaseTTL)
		l.old = current // what was loaded may be older
		if err != nil || time.Since(l.since) <= r.client.answerTime() {
			return l, err
		}
	}
}

// work does what the lease was taken for.
func (l *leased) work(ctx context.Context) (Record, error) {
	if l.old.Token.RefreshToken == "" {
		return l.client.condemn(ctx, l.slot, l.lease, l.old, ReasonNoRefreshToken, nil)
	}
	l.asked = true
	token, err := l.refresh(ctx)
	switch {
	case err == nil:
		record, err := l.commit(ctx, token)
		if err == nil && l.stale != "" {
			l.client.forcing.issued(l.slot, record.Token.AccessToken)
		}
		return record, err
	case isInvalidGrant(err):
		return l.refused(ctx, err)
	}
	l.release(ctx)
	return Record{}, err
}

// refused marks a user whose refresh token the platform does not know any more,
// unless a peer has spent it and stored the next one, or so many are refused that
// it may be the platform.
func (l *leased) refused(ctx context.Context, cause error) (Record, error) {
	reading, cancel := l.client.limitStore(ctx)
	defer cancel()
	current, err := l.client.read(reading, l.slot)
	if err == nil && current.Token.AccessToken != l.old.Token.AccessToken {
		return current, l.client.vet(current)
	}
	if l.old.State != StateActive || l.client.noteRefusal(ctx, l.slot.key) {
		return l.client.condemn(ctx, l.slot, l.lease, l.old, ReasonInvalidGrant, cause)
	}
	l.release(ctx)
	return Record{}, &unmarkedError{key: l.slot.key, until: l.client.breaker.pausedUntil(), err: cause}
}

// refresh asks the platform for the next pair. Where the answer is lost it asks
// once more with the same refresh token: the platform may have taken the first
// request, and then still knows the old token until the new one is used
// (assumption), or it has not. Each try gets a third of the lease; the last
// third is for the store.
func (l *leased) refresh(ctx context.Context) (Token, error) {
	if err := l.client.refused(); err != nil {
		return Token{}, err
	}
	if err := l.client.endpoint.ask(); err != nil {
		return Token{}, err
	}
	ctx, cancel := context.WithDeadline(ctx, l.since.Add(2*l.client.answerTime()))
	defer cancel()
	token, err := l.ask(ctx)
	if errors.Is(err, api.ErrMaybeApplied) && !askedToWait(err) && ctx.Err() == nil {
		l.client.log(ctx, slog.LevelWarn, "the answer of a refresh was lost; trying the old token again", l.slot.key, slog.Any("error", err))
		time.Sleep(backoff(1, firstPoll, lastPoll))
		token, err = l.ask(ctx)
	}
	l.client.endpoint.note(l.slot.key, err)
	l.client.noteFault(ctx, l.slot.key, err)
	return token, err
}

func (l *leased) ask(ctx context.Context) (Token, error) {
	ctx, cancel := l.client.limit(ctx)
	defer cancel()
	return l.client.refresh(ctx, l.old.Token)
}

// askedToWait reports an answer that named a time before which to stay away.
func askedToWait(err error) bool {
	var answer *api.Error
	return errors.As(err, &answer) && answer.RetryAfter > 0
}

// release lets other replicas try. If it fails they wait for the lease's end.
func (l *leased) release(ctx context.Context) {
	ctx, cancel := l.client.limitStore(ctx)
	defer cancel()
	if err := l.slot.store.Release(ctx, l.lease); err != nil {
		l.client.log(ctx, slog.LevelWarn, "lease could not be released", l.slot.key, slog.Any("error", storeError("Release", l.slot.key, err)))
	}
}

// answerTime is what one call of the platform may take.
func (c *Client) answerTime() time.Duration { return c.config.LeaseTTL / 3 }

func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.answerTime())
}

// storeTime ends a call of a store that would never come back. A store that is
// slow for a moment is waited for: for how long is up to the callers, who leave
// with their contexts.
const storeTime = time.Minute

func (c *Client) limitStore(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storeTime)
}
