package tokens

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// pendingCommit is what a refresh returned, until the store has it. The token before
// it may be dead already, so that losing it would log the user out.
type pendingCommit struct {
	conns *Connections
	lease tokenstore.Lease
	old   tokenstore.Record // before the refresh
	token oauth.Token
}

// Waits between tries to write a pair.
const (
	firstRewrite = 100 * time.Millisecond
	lastRewrite  = 30 * time.Second
)

// commit writes a new pair and returns its record. A pair that cannot be
// written is kept and tried again until it is; it is not handed out before,
// because its first use may kill the pair that the store still has.
func (c *Connections) commit(ctx context.Context, leased leasedRecord, token oauth.Token) (tokenstore.Record, error) {
	p := &pendingCommit{conns: c, lease: leased.lease, old: leased.Record, token: token}
	// A connection that is dead must not take the whole lease.
	record, err := p.write(ctx, c.config.answerTime())
	if !isStoreError(err) {
		return record, err
	}
	failure := err
	start := func() (*call, bool) {
		return c.calls.join(ctx, callKey{key: leased.Key, kind: commitCall}, failure, func(ctx context.Context) (tokenstore.Record, error) {
			notify(ctx, &c.hooks, leased.Key, func(o *Observer) func(context.Context, CommitDelayed) { return o.CommitDelayed },
				CommitDelayed{Key: leased.Key, Err: failure})
			return p.writeUntilStored(ctx, failure)
		})
	}
	pending, started := start()
	if !started { // Disconnect and a refresh may each have a pair: one is written after the other
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

// awaitPendingCommit waits for a pair of the user that an earlier refresh could not
// write. It returns an empty record if there is none.
func (c *Connections) awaitPendingCommit(key tokenstore.Key) (tokenstore.Record, error) {
	if pending := c.calls.underWay(callKey{key: key, kind: commitCall}); pending != nil {
		return c.awaitCommit(pending)
	}
	return tokenstore.Record{}, nil
}

// awaitCommit gives a pair a while to be written: longer where the store is slow than
// where it fails.
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

// writeUntilStored writes until the pair is stored, or not wanted any more.
func (p *pendingCommit) writeUntilStored(ctx context.Context, err error) (record tokenstore.Record, _ error) {
	for try := 1; isStoreError(err); try++ {
		wait := jitteredBackoff(try, firstRewrite, lastRewrite)
		p.conns.hooks.log(ctx, slog.LevelError, "a refreshed token pair is not stored and only kept in memory", p.lease.Key,
			slog.Any("error", err), slog.Int("try", try), slog.Duration("next_in", wait))
		time.Sleep(wait)
		record, err = p.write(ctx, storeTimeout)
	}
	p.conns.hooks.log(ctx, slog.LevelInfo, "a kept token pair is stored, or not needed any more", p.lease.Key)
	p.conns.circuit.succeeded(p.lease.Key, false)
	return record, err
}

// maxConflicts bounds how often in a row a write starts over.
const maxConflicts = 3

// write tries to store the pair. A record that has moved in the meantime keeps
// what it has, unless it still waits for this very pair. A store that panics
// has not taken the pair either.
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
				return p.stored(ctx, record) // by a write whose answer was lost
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

// stored reports the new token, and returns what the caller of write gets.
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

// markDisconnecting marks a user again who was disconnected while the pair was kept: it is
// stored so that it can be revoked, and is not to be used.
func (p *pendingCommit) markDisconnecting(ctx context.Context, record tokenstore.Record) (tokenstore.Record, error) {
	lease := tokenstore.Lease{Key: p.lease.Key, Version: record.Version, Owner: p.lease.Owner}
	_, err := p.conns.store.Lease(ctx, lease, p.conns.config.LeaseTTL)
	if err == nil {
		_, err = p.conns.store.Fail(ctx, lease, tokenstore.ReasonDisconnecting)
	}
	if err != nil && !errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, storeError("Fail", p.lease.Key, err) // write comes back to it
	}
	return tokenstore.Record{}, p.conns.reauthorize(p.lease.Key, tokenstore.ReasonDisconnecting, record.Token.ResourceOwner, nil)
}

// follow continues the write on a newer version of the record, and keeps the fields that were
// written to it meanwhile: the clinic, and replaced grants.
func (p *pendingCommit) follow(record tokenstore.Record) {
	p.lease.Version, p.old.State, p.old.Reason = record.Version, record.State, record.Reason
	p.token.Clinic, p.token.Replaced = record.Token.Clinic, record.Token.Replaced
}

// drop disposes of a pair that no record takes any more. The refresh does not wait for it.
func (p *pendingCommit) drop(ctx context.Context) {
	(&disposal{conns: p.conns, key: p.lease.Key, token: p.token, keep: true}).later(ctx, nil)
}

// succeeds reports a record that the pair is the successor of: it holds the
// refresh token that the pair was bought with, and no newer access token. A
// peer that came after the lease had ended may have marked it, because that
// refresh token was spent on this pair; then the pair brings the user back.
func (p *pendingCommit) succeeds(record tokenstore.Record) bool {
	return record.Token.RefreshToken == p.old.Token.RefreshToken &&
		(record.State != tokenstore.StateActive || record.Token.AccessToken == p.old.Token.AccessToken)
}
