package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Waits between looks at a record that another replica is refreshing.
const (
	firstPoll = 50 * time.Millisecond
	lastPoll  = time.Second
)

// leasedRecord is a record whose lease is held.
type leasedRecord struct {
	tokenstore.Record // as it was leased
	lease             tokenstore.Lease
	since             time.Time // not later than the lease's beginning
}

// acquireLease takes the lease on a record. One that a slow store took so long for that
// too little of it is left is taken anew, unless another owner has been quicker. It
// prolongs claim, if there is one.
func (c *Connections) acquireLease(ctx context.Context, record tokenstore.Record, claim *tokenstore.Lease) (leasedRecord, error) {
	l := leasedRecord{lease: tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: rand.Text()}}
	if claim != nil {
		l.lease.Owner = claim.Owner
	}
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	for {
		l.since = time.Now()
		current, err := c.store.Lease(ctx, l.lease, c.config.LeaseTTL)
		l.Record = current // what was loaded may be older
		if err != nil || time.Since(l.since) <= c.config.answerTime() {
			return l, err
		}
	}
}

// release gives up a lease. If that fails other replicas wait for the lease's end.
func (c *Connections) release(ctx context.Context, lease tokenstore.Lease) {
	ctx, cancel := withStoreTimeout(ctx)
	defer cancel()
	if err := c.store.Release(ctx, lease); err != nil {
		c.hooks.log(ctx, slog.LevelWarn, "a lease could not be released", lease.Key, slog.Any("error", storeError("Release", lease.Key, err)))
	}
}

// waitForLease takes the lease on a record in whatever state, when it becomes free. A
// store that fails while it waits is asked again.
func (c *Connections) waitForLease(ctx context.Context, key tokenstore.Key) (leasedRecord, error) {
	end := time.Now().Add(c.config.LeaseTTL + storeTimeout)
	for try := 1; ; try++ {
		leased, err := c.loadLeased(ctx, key)
		switch late := time.Now().After(end); {
		case err == nil:
			return leased, nil
		case errors.Is(err, tokenstore.ErrNoRecord), isStoreError(err) && (try == 1 || late || errors.Is(err, tokenstore.ErrUnreadable)):
			return leasedRecord{}, err
		case late:
			return leasedRecord{}, fmt.Errorf("tokens: other owners kept the lease on the token of %s: %w", key, err)
		case !pause(ctx, jitteredBackoff(try, firstPoll, lastPoll)):
			return leasedRecord{}, ctx.Err()
		}
	}
}

// loadLeased reads a record and takes the lease on it.
func (c *Connections) loadLeased(ctx context.Context, key tokenstore.Key) (leasedRecord, error) {
	loading, cancel := withStoreTimeout(ctx)
	defer cancel()
	record, err := c.store.Load(loading, key)
	if err != nil {
		if errors.Is(err, tokenstore.ErrNoRecord) {
			return leasedRecord{}, err
		}
		return leasedRecord{}, storeError("Load", key, err)
	}
	leased, err := c.acquireLease(ctx, record, nil)
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
