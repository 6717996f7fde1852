package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// records reads and writes the records of the store, under leases. It knows nothing of the
// tokens in memory and the running calls.
type records struct {
	config Config
	client *oauth.Client
	store  tokenstore.Store
	hooks  hooks
}

// callContext is the key of the context of a [call].
type callContext struct{}

// detach returns a context that continues for limit after the end of ctx, so that no caller who
// goes away prevents a write. In a [call], it ends with the call.
func detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	of, ok := ctx.Value(callContext{}).(context.Context)
	if !ok {
		return detached, cancel
	}
	stop := context.AfterFunc(of, cancel)
	return detached, func() { stop(); cancel() }
}

// storeTimeout ends a hanging call of the store. A store that is slow for a moment does not
// fail. Callers limit their wait with their contexts.
const storeTimeout = time.Minute

func withStoreTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storeTimeout)
}

// responseTime is the longest duration of one call of the platform.
func (c *Config) responseTime() time.Duration { return c.LeaseTTL / 3 }

// withResponseTimeout limits one call of the platform.
func (r *records) withResponseTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.config.responseTime())
}

// load reads the user's record. It returns an error if the token must not be used.
func (r *records) load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	if err := key.Validate(); err != nil {
		return tokenstore.Record{}, err
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	record, err := r.read(ctx, key)
	if err != nil {
		return tokenstore.Record{}, err
	}
	if err := r.validate(record); err != nil {
		return record, err
	}
	if r.client.ScopesAddedSince(record.Token) {
		return r.markScopesExtended(ctx, record)
	}
	return record, nil
}

// read calls Load of the store and returns the errors of this package.
func (r *records) read(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	record, err := r.store.Load(ctx, key)
	if errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, r.reauthorize(key, tokenstore.ReasonNotConnected, oauth.ResourceOwner{}, nil)
	}
	return record, storeError("Load", key, err)
}

// validate returns an error if a stored token must not be used.
func (r *records) validate(record tokenstore.Record) error {
	switch {
	case record.Token.Environment != r.client.Environment():
		return wrongEnvironment(record.Token.Environment, r.client.Environment())
	case record.State != tokenstore.StateActive: // an unknown state, such as of a newer version, permits no refresh
		mark := r.reauthorize(record.Key, record.Reason, record.Token.ResourceOwner, nil)
		if r.mayBeMistake(record) {
			mark.retryFrom = retryFrom(record)
		}
		return mark
	}
	return nil
}

// retryFrom returns the earliest retry of the refresh token of a marked user. The wait since
// the mark grows with the time since the first rejection, so it doubles. Users who were marked
// together differ by up to a quarter of the wait. A time of the mark in the future shows a
// difference of the clocks. Then only the waits of this process count.
func retryFrom(record tokenstore.Record) time.Time {
	marked := record.UpdatedAt
	if now := time.Now(); marked.After(now) {
		return now
	}
	wait := min(max(marked.Sub(record.Token.RejectedAt), firstRetry), lastRetry)
	share := fnv.New32a()
	_, _ = io.WriteString(share, record.Key.User)
	return marked.Add(wait + wait/4*time.Duration(share.Sum32()>>16)>>16)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// mayBeMistake reports whether a mark may be wrong. The cause may be a fault of the platform,
// because the API does not rule it out, or a configuration error that is now corrected.
func (r *records) mayBeMistake(record tokenstore.Record) bool {
	if record.State == tokenstore.StateActive || record.Token.Environment != r.client.Environment() || record.Token.RefreshToken.IsZero() {
		return false
	}
	return record.Reason == tokenstore.ReasonInvalidGrant || record.Reason == tokenstore.ReasonOwnerChanged || (record.Reason == tokenstore.ReasonScopesExtended && !r.client.ScopesAddedSince(record.Token))
}

// reauthorize creates the error. cause may be nil.
func (r *records) reauthorize(key tokenstore.Key, reason tokenstore.Reason, owner oauth.ResourceOwner, cause error) *ReauthorizeError {
	return &ReauthorizeError{Key: key, Reason: reason, Owner: owner, client: r.client, cause: cause}
}

// markScopesExtended marks a user whose token lacks scopes that were added to the application
// later. If another owner has the lease, the next caller marks the user.
func (r *records) markScopesExtended(ctx context.Context, record tokenstore.Record) (tokenstore.Record, error) {
	lease := tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: rand.Text()}
	if _, err := r.store.Lease(ctx, lease, r.config.LeaseTTL); err != nil {
		return tokenstore.Record{}, r.reauthorize(record.Key, tokenstore.ReasonScopesExtended, record.Token.ResourceOwner, nil)
	}
	return r.markReauthorize(ctx, lease, record, tokenstore.ReasonScopesExtended, nil)
}

// markReauthorize marks a user who must authorize again, and notifies the observers if the
// mark is new. It stores the token of old with the time of its first rejection, from which the
// waits of retries grow. If the token was replaced meanwhile, it returns that token and does
// not mark the user. If a peer is replacing the token, the error is errLeaseLost.
func (r *records) markReauthorize(ctx context.Context, lease tokenstore.Lease, old tokenstore.Record, reason tokenstore.Reason, cause error) (tokenstore.Record, error) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	verdict := r.reauthorize(lease.Key, reason, old.Token.ResourceOwner, cause)
	if isUnrejected(old.Token) {
		old.Token.RejectedAt = time.Now().Round(0)
	}
	marked, err := r.store.Fail(ctx, lease, old.Token, reason)
	switch {
	case err == nil && old.State != tokenstore.StateActive:
		return marked, verdict
	case err == nil:
		r.hooks.log(ctx, slog.LevelInfo, "user must authorize again", lease.Key, slog.String("reason", string(reason)))
		notify(ctx, &r.hooks, lease.Key, func(o *Observer) func(context.Context, *ReauthorizeError) { return o.MustReauthorize }, verdict)
		return marked, verdict
	case !isContention(err):
		// The user must authorize again anyway. Without the mark, the next call asks the platform again.
		r.hooks.log(ctx, slog.LevelError, "could not store that a user must authorize again", lease.Key, slog.Any("error", storeError("Fail", lease.Key, err)))
		return tokenstore.Record{}, verdict
	}
	current, err := r.read(ctx, lease.Key)
	switch {
	case err == nil && current.Token.AccessToken != old.Token.AccessToken:
		return current, r.validate(current)
	case err == nil && current.State == tokenstore.StateActive && (reason == tokenstore.ReasonInvalidGrant || reason == tokenstore.ReasonOwnerChanged):
		// A peer has the lease and may have spent the refresh token: its result decides.
		return tokenstore.Record{}, errLeaseLost
	}
	return tokenstore.Record{}, verdict
}

// isUnrejected reports whether a token has no time of its first rejection. A time in the
// future counts as none, because the clocks differ.
func isUnrejected(t oauth.Token) bool {
	return t.RejectedAt.IsZero() || t.RejectedAt.After(time.Now())
}

// errLeaseLost is the result of a refresh if its lease ended before it could mark the user.
var errLeaseLost = fmt.Errorf("tokens: the lease expired during the refresh: %w", tokenstore.ErrLeased)

// Waits between reads of a record that another replica is refreshing.
const (
	firstPoll = 50 * time.Millisecond
	lastPoll  = time.Second
)

// leasedRecord is a record together with its lease.
type leasedRecord struct {
	tokenstore.Record // at the time of the lease
	lease             tokenstore.Lease
	since             time.Time // at or before the start of the lease
}

// acquireLease takes the lease on a record, or extends the lease of claim if claim is not nil.
// If a slow store has used up too much of the lease, it takes the lease again, unless another
// owner was faster.
func (r *records) acquireLease(ctx context.Context, record tokenstore.Record, claim *tokenstore.Lease) (leasedRecord, error) {
	l := leasedRecord{lease: tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: rand.Text()}}
	if claim != nil {
		l.lease.Owner = claim.Owner
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	for failed := false; ; { // a lease whose response was lost is given again to the same owner
		l.since = time.Now()
		current, err := r.store.Lease(ctx, l.lease, r.config.LeaseTTL)
		l.Record = current // record may be older
		failed = err != nil && !isContention(err) && !failed
		if !failed && (err != nil || time.Since(l.since) <= r.config.responseTime()) {
			return l, err
		}
	}
}

// release releases a lease, even if ctx has ended. If this fails, other replicas wait until the
// lease expires.
func (r *records) release(ctx context.Context, lease tokenstore.Lease) {
	ctx, cancel := detach(ctx, storeTimeout)
	defer cancel()
	if err := r.store.Release(ctx, lease); err != nil {
		r.hooks.log(ctx, slog.LevelWarn, "could not release a lease", lease.Key, slog.Any("error", storeError("Release", lease.Key, err)))
	}
}

// contend repeats attempt while other owners have the lease on the record, for at most limit.
// It also retries a store that fails meanwhile.
func contend(ctx context.Context, key tokenstore.Key, limit time.Duration, attempt func() (done bool, err error)) error {
	end := time.Now().Add(limit)
	for try := 1; ; try++ {
		done, err := attempt()
		switch late := time.Now().After(end); {
		case done, isStoreError(err) && (try == 1 || late || errors.Is(err, tokenstore.ErrUnreadable)):
			return err
		case late:
			return fmt.Errorf("tokens: other owners kept the lease on the token of %s: %w", key, err)
		case !pause(ctx, jitter.Backoff(try, firstPoll, lastPoll)):
			return ctx.Err()
		}
	}
}

// waitForLease takes the lease on a record in any state as soon as it is free.
func (r *records) waitForLease(ctx context.Context, key tokenstore.Key) (leased leasedRecord, err error) {
	err = contend(ctx, key, r.config.LeaseTTL+storeTimeout, func() (done bool, err error) {
		leased, err = r.loadLeased(ctx, key)
		return err == nil || errors.Is(err, tokenstore.ErrNoRecord), err
	})
	return leased, err
}

// loadLeased reads a record and takes the lease on it.
func (r *records) loadLeased(ctx context.Context, key tokenstore.Key) (leasedRecord, error) {
	loading, cancel := withStoreTimeout(ctx)
	defer cancel()
	record, err := r.store.Load(loading, key)
	if err != nil {
		if errors.Is(err, tokenstore.ErrNoRecord) {
			return leasedRecord{}, err
		}
		return leasedRecord{}, storeError("Load", key, err)
	}
	leased, err := r.acquireLease(ctx, record, nil)
	if err != nil && !isContention(err) {
		err = storeError("Lease", key, err)
	}
	return leased, err
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

// rewrite leases a record and commits the token that change returns. If change returns false,
// it leaves the record unchanged and written is empty.
func (r *records) rewrite(ctx context.Context, key tokenstore.Key, change func(context.Context, tokenstore.Record) (oauth.Token, bool)) (before, written tokenstore.Record, err error) {
	leased, err := r.waitForLease(ctx, key)
	switch {
	case errors.Is(err, tokenstore.ErrNoRecord):
		return tokenstore.Record{}, tokenstore.Record{}, r.reauthorize(key, tokenstore.ReasonNotConnected, oauth.ResourceOwner{}, nil)
	case err != nil:
		return tokenstore.Record{}, tokenstore.Record{}, err
	}
	before = leased.Record
	changing, cancel := context.WithDeadline(ctx, leased.since.Add(2*r.config.responseTime()))
	defer cancel()
	token, changed := change(changing, before)
	if !changed {
		r.release(ctx, leased.lease)
		return before, tokenstore.Record{}, nil
	}
	writing, cancel := detach(ctx, storeTimeout)
	defer cancel()
	written, err = r.store.Commit(writing, leased.lease, token)
	if err != nil {
		r.release(ctx, leased.lease)
		return before, tokenstore.Record{}, storeError("Commit", key, err)
	}
	return before, written, nil
}
