package tokens

import (
	"context"
	"errors"
	"log/slog"
	"time"

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
}

// Waits between attempts to write a pair.
const (
	firstRewrite = 100 * time.Millisecond
	lastRewrite  = 30 * time.Second
)

// commit writes a new pair and returns its record. If the write fails, commit keeps the pair
// and retries until it is stored. It does not return the pair before, because its first use
// may invalidate the pair in the store.
func (c *Connections) commit(ctx context.Context, leased leasedRecord, token oauth.Token) (tokenstore.Record, error) {
	p := &pendingCommit{conns: c, lease: leased.lease, old: leased.Record, token: token}
	// A dead connection must not use up the whole lease.
	record, err := p.write(ctx, c.config.answerTime())
	if !isStoreError(err) {
		return record, err
	}
	failure := err
	start := func() (*call, bool) {
		return c.users.join(ctx, callKey{key: leased.Key, kind: commitCall}, failure, func(ctx context.Context) (tokenstore.Record, error) {
			notify(ctx, &c.hooks, leased.Key, func(o *Observer) func(context.Context, CommitDelayed) { return o.CommitDelayed },
				CommitDelayed{Key: leased.Key, Err: failure})
			return p.writeUntilStored(ctx, failure)
		})
	}
	pending, started := start()
	if !started { // Disconnect and a refresh may each have a pair: write one after the other
		go func() {
			for !started {
				<-pending.done
				pending, started = start()
			}
		}()
		return tokenstore.Record{}, failure
	}
	return c.awaitCommit(pending)
}

// awaitPendingCommit waits for a pending pair of the user from an earlier refresh. It returns
// an empty record if there is none.
func (c *Connections) awaitPendingCommit(key tokenstore.Key) (tokenstore.Record, error) {
	if pending := c.users.underWay(callKey{key: key, kind: commitCall}); pending != nil {
		return c.awaitCommit(pending)
	}
	return tokenstore.Record{}, nil
}

// awaitCommit waits until a pair is stored, for a third of the lease. It waits for
// storeTimeout if the store is slow rather than failing.
func (c *Connections) awaitCommit(pending *call) (tokenstore.Record, error) {
	patience := c.config.answerTime()
	if errors.Is(pending.failure, context.DeadlineExceeded) {
		patience = storeTimeout
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-pending.done:
		return pending.record, pending.err
	case <-timer.C:
		return tokenstore.Record{}, pending.failure
	}
}

// writeUntilStored retries the write until the pair is stored or no longer needed.
func (p *pendingCommit) writeUntilStored(ctx context.Context, err error) (record tokenstore.Record, _ error) {
	for try := 1; isStoreError(err); try++ {
		wait := jitteredBackoff(try, firstRewrite, lastRewrite)
		p.conns.hooks.log(ctx, slog.LevelError, "could not store a refreshed token pair; it is only in memory", p.lease.Key,
			slog.Any("error", err), slog.Int("try", try), slog.Duration("next_in", wait))
		time.Sleep(wait)
		record, err = p.write(ctx, storeTimeout)
	}
	p.conns.hooks.log(ctx, slog.LevelInfo, "a pending token pair is stored or no longer needed", p.lease.Key)
	p.conns.circuit.succeeded(p.lease.Key, false)
	return record, err
}

// maxConflicts is the largest number of consecutive conflicts in one write.
const maxConflicts = 3

// write tries to store the pair. If the record has changed meanwhile, write leaves it unless
// it still has the token that this pair replaces. A panic of the store counts as a failed
// write.
func (p *pendingCommit) write(ctx context.Context, limit time.Duration) (record tokenstore.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	key := p.lease.Key
	defer func() {
		if v := recover(); v != nil {
			record, err = tokenstore.Record{}, storeError("Commit", key, panicked(v))
		}
	}()
	for range maxConflicts {
		record, err = p.conns.store.Commit(ctx, p.lease, p.token)
		if err == nil {
			return p.stored(ctx, record)
		}
		if !isContention(err) {
			return tokenstore.Record{}, storeError("Commit", key, err)
		}
		if record, err = p.conns.read(ctx, key); err != nil {
			if needsUser(err) {
				p.drop(ctx) // a user who was deleted meanwhile stays deleted
			}
			return tokenstore.Record{}, err
		}
		if !p.succeeds(record) {
			if record.State == tokenstore.StateActive && record.Token.AccessToken == p.token.AccessToken {
				return p.stored(ctx, record) // by a write whose response was lost
			}
			p.drop(ctx)
			return record, p.conns.validate(record)
		}
		p.follow(record)
		_, err = p.conns.store.Lease(ctx, p.lease, p.conns.config.LeaseTTL)
		if err != nil && !errors.Is(err, tokenstore.ErrConflict) {
			break // a peer refreshes with the old token: its result decides
		}
	}
	return tokenstore.Record{}, storeError("Commit", key, err)
}

// stored reports the new token and returns the results of write.
func (p *pendingCommit) stored(ctx context.Context, record tokenstore.Record) (tokenstore.Record, error) {
	if p.old.Reason == tokenstore.ReasonDisconnecting {
		return p.markDisconnecting(ctx, record)
	}
	if p.old.State != tokenstore.StateActive {
		notify(ctx, &p.conns.hooks, p.lease.Key, func(o *Observer) func(context.Context, tokenstore.Key) { return o.Restored }, p.lease.Key)
	}
	p.conns.hooks.log(ctx, slog.LevelDebug, "token refreshed", p.lease.Key, slog.Int64("version", record.Version))
	return record, nil
}

// markDisconnecting marks a user who was disconnected while the pair was pending. The pair is
// stored only so that it can be revoked.
func (p *pendingCommit) markDisconnecting(ctx context.Context, record tokenstore.Record) (tokenstore.Record, error) {
	lease := tokenstore.Lease{Key: p.lease.Key, Version: record.Version, Owner: p.lease.Owner}
	_, err := p.conns.store.Lease(ctx, lease, p.conns.config.LeaseTTL)
	if err == nil {
		_, err = p.conns.store.Fail(ctx, lease, tokenstore.ReasonDisconnecting)
	}
	if err != nil && !errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, storeError("Fail", p.lease.Key, err) // write retries it
	}
	return tokenstore.Record{}, p.conns.reauthorize(p.lease.Key, tokenstore.ReasonDisconnecting, record.Token.ResourceOwner, nil)
}

// follow continues the write on a newer version of the record. It keeps the fields that others
// wrote meanwhile: the clinic and the replaced grants.
func (p *pendingCommit) follow(record tokenstore.Record) {
	p.lease.Version, p.old.State, p.old.Reason = record.Version, record.State, record.Reason
	p.token.Clinic, p.token.Replaced = record.Token.Clinic, record.Token.Replaced
}

// drop disposes of a pair that no record needs. The refresh does not wait for it.
func (p *pendingCommit) drop(ctx context.Context) {
	(&disposal{conns: p.conns, key: p.lease.Key, token: p.token, keep: true}).later(ctx, nil)
}

// succeeds reports whether the pair is the successor of the record. The record then has the
// refresh token of the exchange for this pair, and no newer access token. A peer may have
// marked the user after the lease expired, because the exchange had spent the refresh token.
// In this case the pair restores the user.
func (p *pendingCommit) succeeds(record tokenstore.Record) bool {
	return record.Token.RefreshToken == p.old.Token.RefreshToken &&
		(record.State != tokenstore.StateActive || record.Token.AccessToken == p.old.Token.AccessToken)
}
