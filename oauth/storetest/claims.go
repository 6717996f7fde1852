package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
		refused(t, tokenstore.ErrLeased)(store.Lease(ctx, leaseOf(record, "rival"), long))
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
	refused(t, tokenstore.ErrLeased, "another owner's lease stays")(store.Lease(ctx, leaseOf(record, "b"), long))
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
