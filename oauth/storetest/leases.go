package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// leases plays leases in time: the store's, which passes by itself.
var leases = map[string]func(*testing.T, opener){
	"Lease":              lease,
	"LeaseEnds":          leaseEnds,
	"LeaseIsProlonged":   leaseIsProlonged,
	"LateOwnerMayCommit": lateOwnerMayCommit,
	"LostLease":          lostLease,
	"CrashedHolder":      crashedHolder,
}

const (
	// short is a lease that tests wait for.
	short = 300 * time.Millisecond

	// clockSlack forgives a store whose clock and this process's differ in
	// speed or grain.
	clockSlack = 20 * time.Millisecond

	// patience ends a test whose lease does not end, or ends in another unit.
	patience = time.Minute
)

func lease(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	record := save(t, one, user17, 1)
	same := unchanged(t, one, user17)
	_, err := one.Lease(ctx, tokens.Lease{Key: user17, Version: record.Version + 1, Owner: "a"}, long)
	requireError(t, err, tokens.ErrConflict)
	_, err = one.Lease(ctx, tokens.Lease{Key: user17, Version: record.Version - 1, Owner: "a"}, long)
	requireError(t, err, tokens.ErrConflict)
	take(t, one, record, "a", long)
	same()
	for _, owner := range []string{"b", "A", "a2", "ä"} {
		_, err = two.Lease(ctx, leaseOf(record, owner), long)
		requireError(t, err, tokens.ErrLeased, owner)
	}
	_, err = two.Lease(ctx, tokens.Lease{Key: user17, Version: record.Version + 1, Owner: "b"}, long)
	requireError(t, err, tokens.ErrConflict, "the version is looked at first")
	take(t, two, record, "a", long)
	same()
	take(t, one, save(t, one, user18, 1), "b", long)
}

// succeed tries for the lease until it gets it, and returns when that was.
func succeed(t *testing.T, store tokens.Store, record tokens.Record, owner string, ttl time.Duration) time.Time {
	t.Helper()
	for end := time.Now().Add(short + patience); ; time.Sleep(5 * time.Millisecond) {
		_, err := store.Lease(t.Context(), leaseOf(record, owner), ttl)
		if err == nil {
			return time.Now()
		}
		requireError(t, err, tokens.ErrLeased)
		require.True(t, time.Now().Before(end), "the lease does not end")
	}
}

func leaseEnds(t *testing.T, open opener) {
	one, two := open(), open()
	record := save(t, one, user17, 1)
	began := time.Now()
	take(t, one, record, "a", short)
	got := succeed(t, two, record, "b", long)
	assert.GreaterOrEqual(t, got.Sub(began), short-clockSlack, "the lease ended early")
	_, err := one.Lease(t.Context(), leaseOf(record, "a"), long)
	requireError(t, err, tokens.ErrLeased, "now it is the other's")
}

func leaseIsProlonged(t *testing.T, open opener) {
	one, two := open(), open()
	record := save(t, one, user17, 1)
	take(t, one, record, "a", long)
	began := time.Now()
	take(t, one, record, "a", short) // counts from now on, to either side
	got := succeed(t, two, record, "b", short)
	assert.GreaterOrEqual(t, got.Sub(began), short-clockSlack)
	began = time.Now()
	take(t, two, record, "b", long)
	for ; time.Since(began) < 2*short; time.Sleep(short / 10) {
		_, err := one.Lease(t.Context(), leaseOf(record, "a"), long)
		requireError(t, err, tokens.ErrLeased, "prolonged beyond its first end")
	}
}

// lateOwnerMayCommit holds that a lease which has run out is still good for a
// result, as long as no other owner came.
func lateOwnerMayCommit(t *testing.T, open opener) {
	store, witness := open(), open()
	record := save(t, store, user17, 1)
	other := save(t, store, user18, 1)
	late := take(t, store, record, "late", short)
	later := take(t, store, other, "later", short)
	save(t, witness, tokens.Key{Environment: usSandbox, User: "clock"}, 1)
	clock := load(t, witness, tokens.Key{Environment: usSandbox, User: "clock"})
	take(t, witness, clock, "a", short) // ends after both
	succeed(t, witness, clock, "b", long)

	committed, err := store.Commit(t.Context(), late, sample(user17, 2))
	require.NoError(t, err)
	requireSame(t, committed, load(t, store, user17))
	failed, err := store.Fail(t.Context(), later, tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	assert.Equal(t, tokens.StateReauthorize, failed.State)
}

func lostLease(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	record := save(t, one, user17, 1)
	lost := take(t, one, record, "a", short)
	succeed(t, two, record, "b", long)
	same := unchanged(t, one, user17)
	_, err := one.Commit(ctx, lost, sample(user17, 2))
	requireError(t, err, tokens.ErrConflict)
	_, err = one.Fail(ctx, lost, tokens.ReasonInvalidGrant)
	requireError(t, err, tokens.ErrConflict)
	require.NoError(t, one.Release(ctx, lost))
	same()
	_, err = one.Lease(ctx, leaseOf(record, "c"), long)
	requireError(t, err, tokens.ErrLeased, "the late release ended nothing")
	_, err = two.Commit(ctx, leaseOf(record, "b"), sample(user17, 3))
	require.NoError(t, err)
}

// crashedHolder lets one replica after the other die with the lease.
func crashedHolder(t *testing.T, open opener) {
	store := open()
	record := save(t, store, user17, 1)
	for _, owner := range []string{"first", "second", "third"} {
		succeed(t, open(), record, owner, short/3)
	}
	_, err := store.Commit(t.Context(), leaseOf(record, "first"), sample(user17, 2))
	requireError(t, err, tokens.ErrConflict, "risen from the dead")
	_, err = store.Commit(t.Context(), leaseOf(record, "third"), sample(user17, 2))
	require.NoError(t, err)
}

// isContention is true of what a store says when others were quicker.
func isContention(err error) bool {
	return errors.Is(err, tokens.ErrConflict) || errors.Is(err, tokens.ErrLeased)
}
