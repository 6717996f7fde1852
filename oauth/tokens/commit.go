package tokens

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// pendingCommit is the result of a refresh until the store has it. The token before it may be
// invalid already, so losing the result would disconnect the user.
type pendingCommit struct {
	conns *Connections
	lease tokenstore.Lease
	old   tokenstore.Record // before the refresh
	token oauth.Token

	// reason is the mark to write with the token. It is empty, or ReasonDisconnecting if the
	// token is stored only so that it can be revoked.
	reason tokenstore.Reason

	failure atomic.Pointer[StoreError] // of the last attempt
}

// Waits between attempts to write a pair.
const (
	firstRewrite = 100 * time.Millisecond
	lastRewrite  = 30 * time.Second
)

// commit writes a new pair and returns its record. If the write fails, it is retried in the
// background until it succeeds, and commit returns the failure. It does not return the pair
// before, because its first use may invalidate the pair in the store. If reason is not empty,
// it marks the user.
func (c *Connections) commit(ctx context.Context, leased leasedRecord, token oauth.Token, reason tokenstore.Reason) (tokenstore.Record, error) {
	p := &pendingCommit{conns: c, lease: leased.lease, old: leased.Record, token: token, reason: reason}
	pending, _ := c.users.join(ctx, callKey{key: leased.Key, kind: commitCall, token: token.AccessToken}, p, p.writeUntilStored)
	return c.awaitCommit(ctx, pending)
}

// awaitPendingCommit waits for a pending pair of the user from an earlier refresh. It returns
// an empty record if there is none.
func (c *Connections) awaitPendingCommit(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	if pending := c.users.committing(key); pending != nil {
		return c.awaitCommit(ctx, pending)
	}
	return tokenstore.Record{}, nil
}

// awaitCommit waits until a pair is stored, for a third of the lease. It waits for
// storeTimeout if the store is slow rather than failing.
func (c *Connections) awaitCommit(ctx context.Context, pending *call) (tokenstore.Record, error) {
	for _, patience := range []time.Duration{c.config.responseTime(), storeTimeout} {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-pending.done:
			return pending.record, pending.err
		case <-ctx.Done():
			return tokenstore.Record{}, storeError("Commit", pending.pair.lease.Key, ctx.Err())
		case <-timer.C:
		}
		if failure := pending.pair.failure.Load(); failure != nil && !errors.Is(failure, context.DeadlineExceeded) {
			return tokenstore.Record{}, failure
		}
	}
	return tokenstore.Record{}, storeError("Commit", pending.pair.lease.Key, context.DeadlineExceeded)
}

// writeUntilStored retries the write until the pair is stored or no longer needed, or Close
// ends it.
func (p *pendingCommit) writeUntilStored(ctx context.Context) (tokenstore.Record, error) {
	limit, key, delayed := p.conns.config.responseTime(), p.lease.Key, false // a dead connection must not use up the whole lease
	for try := 1; ; try++ {
		record, err := p.write(ctx, limit)
		var failure *StoreError
		if !errors.As(err, &failure) {
			if delayed {
				p.conns.hooks.log(ctx, slog.LevelInfo, "a pending token pair is stored or no longer needed", key)
				p.conns.brakes.succeeded(key, false)
			}
			return record, err
		}
		p.failure.Store(failure)
		wait := jitter.Backoff(try, firstRewrite, lastRewrite)
		if !errors.Is(err, tokenstore.ErrConflict) { // otherwise another writer came first
			p.conns.hooks.log(ctx, slog.LevelError, "could not store a refreshed token pair; it is only in memory", key,
				slog.Any("error", err), slog.Int("try", try), slog.Duration("next_in", wait))
			if !delayed {
				notify(ctx, &p.conns.hooks, key, func(o *Observer) func(context.Context, CommitDelayed) { return o.CommitDelayed },
					CommitDelayed{Key: key, Err: failure})
			}
			delayed = true
		}
		if !pause(ctx, wait) {
			return tokenstore.Record{}, failure
		}
		limit = storeTimeout
	}
}

// write tries to store the pair once. If the record has changed meanwhile, write leaves it
// unless it still has the token that this pair replaces: then it takes the lease for the next
// try. A panic of the store counts as a failed write.
func (p *pendingCommit) write(ctx context.Context, limit time.Duration) (record tokenstore.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	key := p.lease.Key
	defer func() {
		if v := recover(); v != nil {
			record, err = tokenstore.Record{}, storeError("Commit", key, panicked(v))
		}
	}()
	record, conflict := p.put(ctx)
	switch {
	case conflict == nil:
		return p.stored(ctx, record)
	case !isContention(conflict):
		return tokenstore.Record{}, storeError("Commit", key, conflict)
	}
	if record, err = p.conns.read(ctx, key); err != nil {
		if needsUser(err) {
			p.drop(ctx) // a user who was deleted meanwhile stays deleted
		}
		return tokenstore.Record{}, err
	}
	if !p.succeeds(record) {
		if record.Reason == p.reason && record.Token.AccessToken == p.token.AccessToken {
			return p.stored(ctx, record) // by a write whose response was lost
		}
		p.drop(ctx)
		return record, p.conns.validate(record)
	}
	p.follow(record)
	if _, err = p.conns.store.Lease(ctx, p.lease, p.conns.config.LeaseTTL); err != nil {
		return tokenstore.Record{}, storeError("Commit", key, err) // ErrLeased: the result of the peer decides
	}
	return tokenstore.Record{}, storeError("Commit", key, conflict)
}

// put calls the store.
func (p *pendingCommit) put(ctx context.Context) (tokenstore.Record, error) {
	if p.reason != "" {
		return p.conns.store.Fail(ctx, p.lease, p.token, p.reason)
	}
	return p.conns.store.Commit(ctx, p.lease, p.token)
}

// stored reports the new token and returns the results of write.
func (p *pendingCommit) stored(ctx context.Context, record tokenstore.Record) (tokenstore.Record, error) {
	if p.reason != "" {
		return record, p.conns.reauthorize(p.lease.Key, p.reason, record.Token.ResourceOwner, nil)
	}
	if p.old.State != tokenstore.StateActive {
		notify(ctx, &p.conns.hooks, p.lease.Key, func(o *Observer) func(context.Context, tokenstore.Key) { return o.Restored }, p.lease.Key)
	}
	p.conns.hooks.log(ctx, slog.LevelDebug, "token refreshed", p.lease.Key, slog.Int64("version", record.Version))
	return record, nil
}

// follow continues the write on a newer version of the record. It keeps the fields that others
// wrote meanwhile: the clinic, the replaced grants and the mark of a disconnection.
func (p *pendingCommit) follow(record tokenstore.Record) {
	p.lease.Version, p.old.State, p.token.Clinic = record.Version, record.State, record.Token.Clinic
	if p.reason == "" {
		p.token.Replaced = nil
	}
	p.token = replacing(p.token, record.Token.Replaced...)
	if record.Reason == tokenstore.ReasonDisconnecting {
		p.reason = record.Reason
	}
}

// drop disposes of a pair that no record needs. A disconnection also has other grants to
// revoke. The caller does not wait for it.
func (p *pendingCommit) drop(ctx context.Context) {
	grants := []oauth.ReplacedGrant{grantOf(p.token)}
	if p.reason != "" {
		grants = append(grants, p.token.Replaced...)
	}
	for _, g := range grants {
		(&disposal{conns: p.conns, key: p.lease.Key, token: p.conns.tokenOf(g), keep: true}).later(ctx)
	}
}

// succeeds reports whether the pair is the successor of the record. The record then has the
// refresh token of the exchange for this pair, and no newer access token. A peer may have
// marked the user after the lease expired, because the exchange had spent the refresh token.
// In this case the pair restores the user.
func (p *pendingCommit) succeeds(record tokenstore.Record) bool {
	return record.Token.RefreshToken == p.old.Token.RefreshToken &&
		(record.State != tokenstore.StateActive || record.Token.AccessToken == p.old.Token.AccessToken)
}
