package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// leases tests leases against the store's own clock.
var leases = map[string]func(*testing.T, opener){
	"Lease":              lease,
	"LeaseExpires":       leaseExpires,
	"LeaseIsExtended":    leaseIsExtended,
	"LateOwnerMayCommit": lateOwnerMayCommit,
}

func lease(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	record := save(t, one, user17, 1)
	same := unchanged(t, one, user17)
	for _, version := range []int64{record.Version + 1, record.Version - 1} {
		refused(t, tokenstore.ErrConflict, version)(one.Lease(ctx, tokenstore.Lease{Key: user17, Version: version, Owner: "a"}, long))
	}
	take(t, one, record, "a", long)
	same()
	for _, owner := range []string{"b", "A", "a2", "ä"} {
		refused(t, tokenstore.ErrLeased, owner)(two.Lease(ctx, leaseOf(record, owner), long))
	}
	refused(t, tokenstore.ErrConflict, "the version is checked first")(two.Lease(ctx, tokenstore.Lease{Key: user17, Version: record.Version + 1, Owner: "b"}, long))
	take(t, two, record, "a", long)
	same()
	take(t, one, save(t, one, user18, 1), "b", long)
}

// succeed calls Lease until it succeeds, and returns the time.
func succeed(t *testing.T, store tokenstore.Store, record tokenstore.Record, owner string, ttl time.Duration) time.Time {
	t.Helper()
	poll(t, func() bool {
		_, err := store.Lease(t.Context(), leaseOf(record, owner), ttl)
		if err != nil {
			requireError(t, err, tokenstore.ErrLeased)
		}
		return err == nil
	})
	return time.Now()
}

// leaseExpires tests the lease of a crashed or slow owner.
func leaseExpires(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	record, began := save(t, one, user17, 1), time.Now()
	lost := take(t, one, record, "a", short)
	got := succeed(t, two, record, "b", long)
	assert.GreaterOrEqual(t, got.Sub(began), short-clockSlack, "the lease expired early")
	same := unchanged(t, one, user17)
	refused(t, tokenstore.ErrConflict)(one.Commit(ctx, lost, sample(user17, 2)))
	refused(t, tokenstore.ErrConflict)(one.Fail(ctx, lost, sample(user17, 2), tokenstore.ReasonInvalidGrant))
	require.NoError(t, one.Release(ctx, lost))
	same()
	for _, owner := range []string{"a", "c"} {
		refused(t, tokenstore.ErrLeased, "a late Release keeps the new lease")(one.Lease(ctx, leaseOf(record, owner), long))
	}
	written(t)(two.Commit(ctx, leaseOf(record, "b"), sample(user17, 3)))
}

func leaseIsExtended(t *testing.T, open opener) {
	one, two := open(), open()
	record := save(t, one, user17, 1)
	take(t, one, record, "a", long)
	began := time.Now()
	take(t, one, record, "a", short) // the expiry counts from now, even if that is earlier
	got := succeed(t, two, record, "b", short)
	assert.GreaterOrEqual(t, got.Sub(began), short-clockSlack)
	began = time.Now()
	take(t, two, record, "b", long)
	for ; time.Since(began) < 2*short; time.Sleep(short / 10) {
		refused(t, tokenstore.ErrLeased, "the lease was extended")(one.Lease(t.Context(), leaseOf(record, "a"), long))
	}
}

// lateOwnerMayCommit: after its lease has expired, an owner must still be able to write if no
// other owner has taken a lease.
func lateOwnerMayCommit(t *testing.T, open opener) {
	store, witness := open(), open()
	record, other, clock := save(t, store, user17, 1), save(t, store, user18, 1), save(t, witness, keyOf("clock"), 1)
	late, later := take(t, store, record, "late", short), take(t, store, other, "later", short)
	take(t, witness, clock, "a", short) // expires after both leases
	succeed(t, witness, clock, "b", long)

	committed := written(t)(store.Commit(t.Context(), late, sample(user17, 2)))
	requireSame(t, committed, load(t, store, user17))
	failed := written(t)(store.Fail(t.Context(), later, sample(user18, 2), tokenstore.ReasonInvalidGrant))
	assert.Equal(t, tokenstore.StateReauthorize, failed.State)
}
