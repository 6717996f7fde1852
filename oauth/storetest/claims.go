package storetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
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
		rejected(t, tokenstore.ErrConflict, version)(one.Lease(ctx, tokenstore.Lease{Key: user17, Version: version, Owner: "a"}, long))
	}
	take(t, one, record, "a", long)
	same()
	for _, owner := range []string{"b", "A", "a2", "ä"} {
		rejected(t, tokenstore.ErrLeased, owner)(two.Lease(ctx, leaseOf(record, owner), long))
	}
	rejected(t, tokenstore.ErrConflict, "the version is checked first")(two.Lease(ctx, tokenstore.Lease{Key: user17, Version: record.Version + 1, Owner: "b"}, long))
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
	rejected(t, tokenstore.ErrConflict)(one.Commit(ctx, lost, sample(user17, 2)))
	rejected(t, tokenstore.ErrConflict)(one.Fail(ctx, lost, sample(user17, 2), tokenstore.ReasonInvalidGrant))
	require.NoError(t, one.Release(ctx, lost))
	same()
	for _, owner := range []string{"a", "c"} {
		rejected(t, tokenstore.ErrLeased, "a late Release keeps the new lease")(one.Lease(ctx, leaseOf(record, owner), long))
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
		rejected(t, tokenstore.ErrLeased, "the lease was extended")(one.Lease(t.Context(), leaseOf(record, "a"), long))
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

// claims tests [tokenstore.Store].ClaimDue and Postpone.
var claims = map[string]func(*testing.T, opener){
	"ClaimDue":       claimDue,
	"ClaimsAreLease": claimsAndLeases,
	"ClaimRaces":     claimRaces,
	"Postpone":       postpone,
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// after returns a time n minutes after the epoch.
func after(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }

// saveDue stores a token with a due time n minutes after the epoch. If the store encrypts
// tokens, the due time differs by up to 24 minutes.
func saveDue(t *testing.T, store tokenstore.Store, user string, n int) tokenstore.Record {
	t.Helper()
	token := sample(keyOf(user), n)
	token.UsedAt = epoch
	token.ExpiresAt = after(n).Add(token.ExpiresAt.Sub(tokenstore.DueAt(token)))
	record := written(t)(store.Save(t.Context(), keyOf(user), token))
	return record
}

// everything selects every due token of a test.
var everything = tokenstore.Due{Environment: usSandbox, Before: epoch.AddDate(1, 0, 0), Limit: 1000, Owner: "claimer", TTL: long}

// claim returns the records of a successful ClaimDue.
func claim(t *testing.T, store tokenstore.Store, due tokenstore.Due) []tokenstore.Record {
	t.Helper()
	claimed, err := store.ClaimDue(t.Context(), due)
	require.NoError(t, err)
	return claimed
}

// saveNeverDue stores records that are never due: one without a refresh token, one without an
// expiry, one in StateReauthorize and one of another environment.
func saveNeverDue(t *testing.T, store tokenstore.Store) {
	t.Helper()
	mark(t, store, saveDue(t, store, "marked", 1))
	withoutRefresh, withoutExpiry := sample(user17, 1), sample(user18, 1)
	withoutRefresh.RefreshToken, withoutRefresh.ExpiresAt = api.Secret{}, epoch
	withoutExpiry.ExpiresAt = time.Time{}
	abroad := tokenstore.Key{Environment: caSandbox, User: "abroad"}
	elsewhere := sample(abroad, 1)
	elsewhere.ExpiresAt = epoch
	written(t)(store.Save(t.Context(), user17, withoutRefresh))
	written(t)(store.Save(t.Context(), user18, withoutExpiry))
	written(t)(store.Save(t.Context(), abroad, elsewhere))
}

func claimDue(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	for user, n := range map[string]int{"third": 300, "first": 100, "second": 200, "later": 100_000} {
		saveDue(t, store, user, n)
	}
	saveNeverDue(t, store)
	due := everything
	due.Before, due.UsedSince = after(1000), epoch.Add(time.Microsecond)
	assert.Empty(t, claim(t, store, due), "ClaimDue skips users without recent calls")
	due.UsedSince, due.From = epoch, after(1000)
	assert.Empty(t, claim(t, store, due), "ClaimDue skips records due before From")

	due.From, due.Limit = time.Time{}, 2
	claimed := claim(t, store, due)
	require.Equal(t, []string{"first", "second"}, users(claimed), "records are ordered by due time")
	for _, record := range claimed {
		requireSame(t, load(t, store, record.Key), record)
		rejected(t, tokenstore.ErrLeased)(store.Lease(ctx, leaseOf(record, "rival"), long))
	}
	assert.Equal(t, []string{"third"}, users(claim(t, store, due)), "no record is claimed twice, even by one owner")
	written(t)(store.Commit(ctx, leaseOf(claimed[0], due.Owner), sample(claimed[0].Key, 1)))
	require.NoError(t, store.Release(ctx, leaseOf(claimed[1], due.Owner)))
	assert.Equal(t, []string{"second"}, users(claim(t, store, due)))
}

// claimsAndLeases: ClaimDue must skip a leased record until the lease expires.
func claimsAndLeases(t *testing.T, open opener) {
	store := open()
	take(t, store, saveDue(t, store, "in use", 1), "a", long)
	saveDue(t, store, "free", 2)
	due := everything
	due.TTL = short
	claimed := claim(t, store, due)
	require.Equal(t, []string{"free"}, users(claimed))
	succeed(t, store, claimed[0], "b", short)
	poll(t, func() bool {
		claimed = claim(t, store, due)
		return len(claimed) > 0
	})
	assert.Equal(t, []string{"free"}, users(claimed))
}

func claimRaces(t *testing.T, open opener) {
	store := open()
	const many = 60
	for i := range many {
		saveDue(t, store, fmt.Sprint("user-", i), i)
	}
	var mu sync.Mutex
	owners := map[tokenstore.Key]string{}
	runConcurrently(open, func(store tokenstore.Store, owner string) {
		due := everything
		due.Owner, due.Limit = owner, 7
		for !t.Failed() {
			claimed, err := store.ClaimDue(t.Context(), due)
			if !assert.NoError(t, err) || len(claimed) == 0 {
				return
			}
			mu.Lock()
			for _, record := range claimed {
				assert.Empty(t, owners[record.Key], "the record was claimed twice")
				owners[record.Key] = owner
			}
			mu.Unlock()
		}
	})
	// Concurrent claims may have skipped each other's records. The next claim returns them.
	assert.Len(t, owners, many-len(claim(t, store, everything)))
	for key, owner := range owners {
		_, err := store.Commit(t.Context(), leaseOf(load(t, store, key), owner), sample(key, 1))
		assert.NoError(t, err, "%s has the lease of %s", owner, key)
	}
}

// postpone: a postponed record must be due later, or at once if a token is written.
func postpone(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	record := saveDue(t, store, "first", 1)
	saveDue(t, store, "second", 1000)
	due := everything
	due.Limit, due.Before = 1, after(5000)
	next := func() []string {
		t.Helper()
		claimed := claim(t, store, due)
		for _, record := range claimed {
			require.NoError(t, store.Release(ctx, leaseOf(record, due.Owner)))
		}
		return users(claimed)
	}
	require.Equal(t, []string{"first"}, next())
	same := unchanged(t, store, record.Key)
	lease := take(t, store, record, "a", long)
	require.NoError(t, store.Postpone(ctx, leaseOf(record, "b"), after(3000)))
	rejected(t, tokenstore.ErrLeased, "another owner's lease stays")(store.Lease(ctx, leaseOf(record, "b"), long))
	require.NoError(t, store.Postpone(ctx, lease, after(3000)))
	same()
	assert.Equal(t, []string{"second"}, next(), "the postponed record is due later")
	due.From = after(2000)
	assert.Equal(t, []string{"first"}, next(), "Postpone removes the lease")
	due.From, due.Before = time.Time{}, after(2000)
	saveDue(t, store, "first", 1)
	assert.Equal(t, []string{"first"}, next(), "a new token makes the record due again")
	record, err := store.Load(ctx, record.Key)
	require.NoError(t, err)
	require.NoError(t, store.Postpone(ctx, take(t, store, record, "a", long), after(3000)))
	assert.Equal(t, []string{"second"}, next())
	_, err = store.Commit(ctx, take(t, store, record, "a", long), record.Token)
	require.NoError(t, err)
	assert.Equal(t, []string{"first"}, next(), "a refresh makes the record due again")
}

// flows tests [tokenstore.Store].ClaimFlow and EndFlow.
var flows = map[string]func(*testing.T, opener){
	"Flow":             flow,
	"FlowClaimExpires": flowClaimExpires,
	"FlowClaimRaces":   flowClaimRaces,
	"FlowArguments":    flowArguments,
}

func claimOf(flow, owner string) tokenstore.FlowClaim {
	return tokenstore.FlowClaim{Environment: usSandbox, Flow: flow, Owner: owner}
}

// requireResult requires a claim of the flow to return want.
func requireResult(t *testing.T, store tokenstore.Store, claim tokenstore.FlowClaim, want string) {
	t.Helper()
	result, err := store.ClaimFlow(t.Context(), claim, long)
	require.NoError(t, err)
	require.Equal(t, want, result)
}

// requireClaimed requires another owner to have the claim.
func requireClaimed(t *testing.T, store tokenstore.Store, claim tokenstore.FlowClaim) {
	t.Helper()
	_, err := store.ClaimFlow(t.Context(), claim, long)
	requireError(t, err, tokenstore.ErrLeased)
}

func flow(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	a, b := claimOf("f-1", "a"), claimOf("f-1", "b")
	requireResult(t, one, a, "")
	require.NoError(t, one.EndFlow(ctx, a, ""))
	requireResult(t, two, b, "")
	requireClaimed(t, one, a)
	require.NoError(t, two.EndFlow(ctx, b, ""))

	requireResult(t, one, a, "")
	requireResult(t, two, a, "")
	requireClaimed(t, two, b)
	for _, other := range []string{"f-2", "F-1", "f-1-"} {
		requireResult(t, two, claimOf(other, "b"), "")
	}
	elsewhere := b
	elsewhere.Environment = caSandbox
	requireResult(t, two, elsewhere, "")

	require.NoError(t, two.EndFlow(ctx, b, "stolen"))
	require.NoError(t, two.EndFlow(ctx, b, ""))
	requireClaimed(t, two, b)
	for _, result := range []string{"connected", "failed", ""} { // only the first result is stored
		require.NoError(t, one.EndFlow(ctx, a, result))
	}
	requireResult(t, two, b, "connected")
	requireResult(t, one, a, "connected")
	require.NoError(t, one.EndFlow(ctx, claimOf("unknown", "a"), "connected"))
	requireResult(t, one, claimOf("unknown", "b"), "")
	assert.Empty(t, listed(t, one, tokenstore.Listing{Environment: usSandbox, Limit: 10}), "a flow is not a record")
}

// flowClaimExpires: if the owner of a flow crashes, no other owner may claim the flow. A late
// result must still be stored.
func flowClaimExpires(t *testing.T, open opener) {
	one, two, ctx := open(), open(), t.Context()
	a, b := claimOf("f-1", "a"), claimOf("f-1", "b")
	began := time.Now()
	_, err := one.ClaimFlow(ctx, a, short)
	require.NoError(t, err)
	poll(t, func() bool {
		_, err = two.ClaimFlow(ctx, b, long)
		return err == nil || !isContention(err)
	})
	requireError(t, err, tokenstore.ErrNoResult)
	assert.GreaterOrEqual(t, time.Since(began), short-clockSlack, "the claim expired early")
	require.NoError(t, two.EndFlow(ctx, b, "stolen"))
	requireResult(t, one, a, "")
	require.NoError(t, one.EndFlow(ctx, a, "late"))
	requireResult(t, two, b, "late")
}

func flowClaimRaces(t *testing.T, open opener) {
	for _, id := range []string{"f-1", "f-2", "f-3"} {
		var claimed atomic.Int64
		runConcurrently(open, func(store tokenstore.Store, owner string) {
			result, err := store.ClaimFlow(t.Context(), claimOf(id, owner), long)
			if err == nil {
				claimed.Add(1)
				assert.Empty(t, result)
				return
			}
			assert.ErrorIs(t, err, tokenstore.ErrLeased)
		})
		require.EqualValues(t, 1, claimed.Load())
	}
}

func flowArguments(t *testing.T, open opener) {
	store := open()
	for _, claim := range []tokenstore.FlowClaim{
		{Flow: "f", Owner: "a"}, claimOf("", "a"), claimOf("f", ""), claimOf("f f", "a"), claimOf("f\x00", "a"), claimOf("é", "a"), claimOf(strings.Repeat("f", 256), "a"),
	} {
		_, err := store.ClaimFlow(t.Context(), claim, long)
		require.ErrorIs(t, err, api.ErrArgument)
		require.ErrorIs(t, store.EndFlow(t.Context(), claim, "x"), api.ErrArgument)
	}
	longest := claimOf(strings.Repeat("f", 255), strings.Repeat("a", 255))
	requireResult(t, store, longest, "")
	require.NoError(t, store.EndFlow(t.Context(), longest, strings.Repeat("r", 64)))
	requireResult(t, store, longest, strings.Repeat("r", 64))
}
