package storetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// capabilities plays what a store may do beyond its duty.
var capabilities = map[string]func(*testing.T, opener){
	"List":           list,
	"ListOfClinics":  listOfClinics,
	"ClaimDue":       claimDue,
	"ClaimDueIsFair": claimDueIsFair,
	"ClaimDueRaces":  claimDueRaces,
	"Postpone":       postpone,
}

// listed reads all pages of a listing.
func listed(t *testing.T, lister tokens.Store, listing tokens.Listing) []tokens.Record {
	t.Helper()
	var all []tokens.Record
	for {
		page, err := lister.List(t.Context(), listing)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), listing.Limit)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		listing.After = page[len(page)-1].Key.User
	}
}

func list(t *testing.T, open opener) {
	store := open()
	lister := store
	assert.Empty(t, listed(t, lister, tokens.Listing{Environment: usSandbox, Limit: 2}))
	want := map[string]tokens.Record{}
	for i, user := range []string{"b", "B", "ä", "a", "zz", "z", "é", "日本", "a%", "a_"} {
		want[user] = save(t, store, tokens.Key{Environment: usSandbox, User: user}, i)
	}
	save(t, store, tokens.Key{Environment: caSandbox, User: "c"}, 1)
	marked, err := store.Fail(t.Context(), take(t, store, want["b"], "a", long), tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	want["b"] = marked

	for _, limit := range []int{1, 3, 100} {
		all := listed(t, lister, tokens.Listing{Environment: usSandbox, Limit: limit})
		require.Len(t, all, len(want))
		for i, record := range all {
			assert.True(t, i == 0 || all[i-1].Key.User < record.Key.User, "users come in the order of their bytes")
			whole := want[record.Key.User]
			whole.Token.AccessToken, whole.Token.RefreshToken, whole.Token.Replaced = api.Secret{}, api.Secret{}, nil
			requireSame(t, whole, record)
		}
		assert.Len(t, listed(t, lister, tokens.Listing{Environment: usSandbox, State: tokens.StateActive, Limit: limit}), len(want)-1)
		only := listed(t, lister, tokens.Listing{Environment: usSandbox, State: tokens.StateReauthorize, Limit: limit})
		require.Len(t, only, 1)
		assert.Equal(t, "b", only[0].Key.User)
	}
	assert.Empty(t, listed(t, lister, tokens.Listing{Environment: usLive, Limit: 5}))
}

// listOfClinics holds that users are found by the clinic of their last token, whatever
// has written it.
func listOfClinics(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	lister := store
	clinics := func(environment api.Environment, limit int) (all []string) {
		for {
			after := ""
			if len(all) > 0 {
				after = all[len(all)-1]
			}
			page, err := lister.ListClinics(ctx, environment, after, limit)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			if len(page) == 0 {
				return all
			}
			all = append(all, page...)
		}
	}
	of := func(clinic string, limit int) []string {
		return users(listed(t, lister, tokens.Listing{Environment: usSandbox, ClinicID: clinic, Limit: limit}))
	}
	assert.Empty(t, clinics(usSandbox, 2))
	assert.Empty(t, of("cl-1", 2))
	records := map[string]tokens.Record{}
	for user, clinic := range map[string]string{"d": "cl-1", "a": "cl-1", "c": "CL-1", "b": "é", "f": "a%", "e": "a_", "z": ""} {
		key := tokens.Key{Environment: usSandbox, User: user}
		token := sample(key, 1)
		token.Clinic.ID = clinic
		saved, err := store.Save(ctx, key, token)
		require.NoError(t, err)
		records[user] = saved
	}
	save(t, store, tokens.Key{Environment: caSandbox, User: "a"}, 2)
	for _, limit := range []int{1, 2, 100} {
		assert.Equal(t, []string{"CL-1", "a%", "a_", "cl-1", "é"}, clinics(usSandbox, limit), "in the order of their bytes")
		assert.Equal(t, []string{"cl-2"}, clinics(caSandbox, limit))
		assert.Equal(t, []string{"a", "d"}, of("cl-1", limit))
		assert.Equal(t, []string{"f"}, of("a%", limit))
		assert.Len(t, of("", limit), len(records), "no clinic limits nothing")
	}
	empty, err := lister.ListClinics(ctx, usSandbox, "", 0)
	require.NoError(t, err)
	assert.Empty(t, empty)

	marked, err := store.Fail(ctx, take(t, store, records["a"], "x", long), tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	assert.Equal(t, "cl-1", marked.Token.Clinic.ID)
	active := tokens.Listing{Environment: usSandbox, ClinicID: "cl-1", State: tokens.StateActive, Limit: 5}
	assert.Equal(t, []string{"d"}, users(listed(t, lister, active)))
	moved := records["d"].Token
	moved.Clinic.ID = "é"
	_, err = store.Commit(ctx, take(t, store, records["d"], "x", long), moved)
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, of("cl-1", 5))
	assert.Equal(t, []string{"b", "d"}, of("é", 5))
	require.NoError(t, deleteCurrent(ctx, store, records["a"].Key))
	assert.Equal(t, []string{"CL-1", "a%", "a_", "é"}, clinics(usSandbox, 5), "a clinic ends with its last user")

	wrong := records["b"].Token
	wrong.Clinic.ID = strings.Repeat("x", 256)
	_, err = store.Save(ctx, records["b"].Key, wrong)
	requireError(t, err, api.ErrInvalidArgument)
}

// saveDue saves a token that is due n minutes after the epoch of the test.
func saveDue(t *testing.T, store tokens.Store, user string, n int) tokens.Record {
	t.Helper()
	key := tokens.Key{Environment: usSandbox, User: user}
	token := sample(key, n)
	token.UsedAt = epoch
	lead := token.ExpiresAt.Sub(tokens.DueAt(token))
	token.ExpiresAt = epoch.Add(time.Duration(n)*time.Minute + lead)
	record, err := store.Save(t.Context(), key, token)
	require.NoError(t, err)
	return record
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// all is a claim of everything that a test made due.
var all = tokens.Due{Environment: usSandbox, Before: epoch.AddDate(1, 0, 0), Limit: 1000, Owner: "claimer", TTL: long}

func users(records []tokens.Record) []string {
	names := []string{}
	for _, record := range records {
		names = append(names, record.Key.User)
	}
	return names
}

// saveNeverDue saves records that are not to be claimed: without a refresh token,
// without an end, marked, and of another environment.
func saveNeverDue(t *testing.T, store tokens.Store) {
	t.Helper()
	ctx := t.Context()
	never := sample(user17, 1)
	never.RefreshToken, never.ExpiresAt = api.Secret{}, epoch
	_, err := store.Save(ctx, user17, never)
	require.NoError(t, err)
	never = sample(user18, 1)
	never.ExpiresAt = time.Time{}
	_, err = store.Save(ctx, user18, never)
	require.NoError(t, err)
	marked := saveDue(t, store, "marked", 1)
	_, err = store.Fail(ctx, take(t, store, marked, "a", long), tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	abroad := tokens.Key{Environment: caSandbox, User: "abroad"}
	elsewhere := sample(abroad, 1)
	elsewhere.ExpiresAt = epoch
	_, err = store.Save(ctx, abroad, elsewhere)
	require.NoError(t, err)
}

func claimDue(t *testing.T, open opener) {
	store := open()
	c, ctx := store, t.Context()
	// Stores that seal spread due times in another way, by 24 minutes at most.
	for user, n := range map[string]int{"third": 300, "first": 100, "second": 200, "later": 100_000} {
		saveDue(t, store, user, n)
	}
	saveNeverDue(t, store)

	due := all
	due.Before = epoch.Add(1000 * time.Minute)
	unused := due
	unused.UsedSince = epoch.Add(time.Microsecond)
	claimed, err := c.ClaimDue(ctx, unused)
	require.NoError(t, err)
	assert.Empty(t, claimed, "users without calls")
	lapsed := due
	lapsed.From = epoch.Add(1000 * time.Minute)
	claimed, err = c.ClaimDue(ctx, lapsed)
	require.NoError(t, err)
	assert.Empty(t, claimed, "what was due before")

	due.UsedSince, due.Limit = epoch, 2
	claimed, err = c.ClaimDue(ctx, due)
	require.NoError(t, err)
	require.Equal(t, []string{"first", "second"}, users(claimed), "the earliest first")
	for _, record := range claimed {
		requireSame(t, load(t, store, record.Key), record)
		_, err = store.Lease(ctx, leaseOf(record, "rival"), long)
		requireError(t, err, tokens.ErrLeased)
	}
	claimed2, err := c.ClaimDue(ctx, due)
	require.NoError(t, err)
	assert.Equal(t, []string{"third"}, users(claimed2), "nothing is handed out twice, not even to one owner")

	_, err = store.Commit(ctx, leaseOf(claimed[0], due.Owner), sample(claimed[0].Key, 1))
	require.NoError(t, err, "a claim is a lease")
	require.NoError(t, store.Release(ctx, leaseOf(claimed[1], due.Owner)))
	claimed, err = c.ClaimDue(ctx, due)
	require.NoError(t, err)
	assert.Equal(t, []string{"second"}, users(claimed))
}

// claimDueIsFair holds that leases of the dead run out for claims too, and that
// a record in use is passed over.
func claimDueIsFair(t *testing.T, open opener) {
	store := open()
	c := store
	inUse := saveDue(t, store, "in use", 1)
	saveDue(t, store, "free", 2)
	take(t, store, inUse, "a", long)
	due := all
	due.TTL, due.UsedSince = short, time.Time{}
	claimed, err := c.ClaimDue(t.Context(), due)
	require.NoError(t, err)
	require.Equal(t, []string{"free"}, users(claimed))
	succeed(t, store, claimed[0], "b", short)
	for end := time.Now().Add(short + patience); ; time.Sleep(5 * time.Millisecond) {
		claimed, err = c.ClaimDue(t.Context(), due)
		require.NoError(t, err)
		if len(claimed) == 1 {
			break
		}
		require.True(t, time.Now().Before(end), "a lease does not end for claims")
	}
	assert.Equal(t, []string{"free"}, users(claimed))
}

// postpone holds that a postponed record is due later, unless a token is written.
func postpone(t *testing.T, open opener) {
	store, ctx := open(), t.Context()
	c := store
	require.NoError(t, c.Postpone(ctx, tokens.Lease{Key: user17, Version: 1, Owner: "a"}, epoch))
	record := saveDue(t, store, "first", 1)
	saveDue(t, store, "second", 1000)
	due := all
	due.UsedSince, due.Limit, due.Before = time.Time{}, 1, epoch.Add(5000*time.Minute)
	claim := func() []string {
		t.Helper()
		claimed, err := c.ClaimDue(ctx, due)
		require.NoError(t, err)
		for _, record := range claimed {
			require.NoError(t, store.Release(ctx, leaseOf(record, due.Owner)))
		}
		return users(claimed)
	}
	require.Equal(t, []string{"first"}, claim())
	same := unchanged(t, store, record.Key)
	lease := take(t, store, record, "a", long)
	require.NoError(t, c.Postpone(ctx, leaseOf(record, "b"), epoch.Add(3000*time.Minute)))
	_, err := store.Lease(ctx, leaseOf(record, "b"), long)
	requireError(t, err, tokens.ErrLeased, "another owner's lease stays")
	require.NoError(t, c.Postpone(ctx, lease, epoch.Add(3000*time.Minute)))
	same()
	assert.Equal(t, []string{"second"}, claim(), "it is due later")
	due.From = epoch.Add(2000 * time.Minute)
	assert.Equal(t, []string{"first"}, claim(), "its lease has ended")
	due.From, due.Before = time.Time{}, epoch.Add(2000*time.Minute)
	saveDue(t, store, "first", 1)
	assert.Equal(t, []string{"first"}, claim(), "a write makes it due again")
}

func claimDueRaces(t *testing.T, open opener) {
	store := open()
	const many = 60
	for i := range many {
		saveDue(t, store, "user-"+string(rune('A'+i)), i)
	}
	var mu sync.Mutex
	owners := map[string]string{}
	runConcurrently(open, func(store tokens.Store, owner string) {
		due := all
		due.Owner, due.Limit = owner, 7
		for t.Context().Err() == nil {
			claimed, err := store.ClaimDue(t.Context(), due)
			if !assert.NoError(t, err) || len(claimed) == 0 {
				return
			}
			mu.Lock()
			good := true
			for _, record := range claimed {
				good = assert.Empty(t, owners[record.Key.User], "claimed twice") && good
				owners[record.Key.User] = owner
			}
			mu.Unlock()
			if !good {
				return // or it might never end
			}
		}
	})
	// Claims that met may have passed over each other's records: the next one
	// gets them.
	rest, err := store.ClaimDue(t.Context(), all)
	require.NoError(t, err)
	assert.Len(t, owners, many-len(rest))
	for user, owner := range owners {
		key := tokens.Key{Environment: usSandbox, User: user}
		_, err := store.Commit(t.Context(), leaseOf(load(t, store, key), owner), sample(key, 1))
		assert.NoError(t, err, "%s is leased by who claimed it", user)
	}
}
