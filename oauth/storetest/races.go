package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// races plays replicas that come at the same time.
var races = map[string]func(*testing.T, opener){
	"OneWinner":          oneWinner,
	"NoUpdateIsLost":     noUpdateIsLost,
	"SaveAmongCommits":   saveAmongCommits,
	"DeleteAmongCommits": deleteAmongCommits,
	"DeleteAmongSaves":   deleteAmongSaves,
	"FirstSaves":         firstSaves,
	"SaveVersionRaces":   saveVersionRaces,
}

const (
	replicas = 3
	callers  = 8 // of each replica
)

// runConcurrently runs act for every caller of every replica at once and waits for them.
func runConcurrently(open opener, act func(store tokens.Store, owner string)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for replica := range replicas {
		store := open()
		for caller := range callers {
			wg.Go(func() {
				<-start
				act(store, fmt.Sprintf("replica %d caller %d", replica, caller))
			})
		}
	}
	close(start)
	wg.Wait()
}

func oneWinner(t *testing.T, open opener) {
	record := save(t, open(), user17, 0)
	for round := range 5 {
		var won atomic.Int64
		var winner atomic.Pointer[tokens.Lease]
		runConcurrently(open, func(store tokens.Store, owner string) {
			lease := leaseOf(record, owner)
			_, err := store.Lease(t.Context(), lease, long)
			if err == nil {
				won.Add(1)
				winner.Store(&lease)
				return
			}
			assert.ErrorIs(t, err, tokens.ErrLeased)
		})
		require.EqualValues(t, 1, won.Load())
		var err error
		record, err = open().Commit(t.Context(), *winner.Load(), sample(user17, round))
		require.NoError(t, err)
	}
}

// counted is a token whose access token is a number.
func counted(n int) oauth.Token {
	token := sample(user17, 0)
	token.AccessToken = api.NewSecret("SECRET-" + strconv.Itoa(n))
	return token
}

func count(t testing.TB, record tokens.Record) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(record.Token.AccessToken.Reveal(), "SECRET-"))
	assert.NoError(t, err)
	return n
}

// noUpdateIsLost lets everyone count in one record. Each count needs a lease and
// a commit on the number that was read: one that is lost is missing at the end.
func noUpdateIsLost(t *testing.T, open opener) {
	store := open()
	_, err := store.Save(t.Context(), user17, counted(0))
	require.NoError(t, err)
	var done atomic.Int64
	runConcurrently(open, func(store tokens.Store, owner string) {
		for range 3 {
			addOne(t, store, owner)
			done.Add(1)
		}
	})
	assert.EqualValues(t, replicas*callers*3, done.Load())
	assert.Equal(t, replicas*callers*3, count(t, load(t, store, user17)))
}

func addOne(t *testing.T, store tokens.Store, owner string) {
	for t.Context().Err() == nil {
		record, err := store.Load(t.Context(), user17)
		if !assert.NoError(t, err) {
			return
		}
		leased, err := store.Lease(t.Context(), leaseOf(record, owner), long)
		if isContention(err) {
			continue
		}
		if !assert.NoError(t, err) {
			return
		}
		committed, err := store.Commit(t.Context(), leaseOf(leased, owner), counted(count(t, leased)+1))
		if assert.NoError(t, err) {
			assert.Greater(t, committed.Version, leased.Version)
		}
		return
	}
}

// saveAmongCommits lets users authorize anew while their tokens are refreshed:
// what they authorized last is what stays, or its successor.
func saveAmongCommits(t *testing.T, open opener) {
	store := open()
	const generation = 1000 // a save begins a new one, a refresh counts in it
	_, err := store.Save(t.Context(), user17, counted(0))
	require.NoError(t, err)
	var next atomic.Int64
	runConcurrently(open, func(store tokens.Store, owner string) {
		if strings.HasSuffix(owner, "caller 0") {
			_, err := store.Save(t.Context(), user17, counted(int(next.Add(1))*generation))
			assert.NoError(t, err)
			return
		}
		record, err := store.Load(t.Context(), user17)
		assert.NoError(t, err)
		leased, err := store.Lease(t.Context(), leaseOf(record, owner), long)
		if err != nil {
			assert.True(t, isContention(err), "%v", err)
			return
		}
		_, err = store.Commit(t.Context(), leaseOf(leased, owner), counted(count(t, leased)+1))
		assert.True(t, err == nil || errors.Is(err, tokens.ErrConflict), "%v", err)
	})
	final := count(t, load(t, store, user17))
	assert.GreaterOrEqual(t, final, generation, "the refresh of an older authorization won")
}

func deleteAmongCommits(t *testing.T, open opener) {
	for range 3 {
		store := open()
		record := save(t, store, user17, 0)
		runConcurrently(open, func(store tokens.Store, owner string) {
			if strings.HasSuffix(owner, "caller 0") {
				assert.NoError(t, deleteCurrent(t.Context(), store, user17))
				return
			}
			_, err := store.Lease(t.Context(), leaseOf(record, owner), long)
			if err == nil {
				_, err = store.Commit(t.Context(), leaseOf(record, owner), sample(user17, 1))
			}
			assert.True(t, err == nil || isContention(err) || errors.Is(err, tokens.ErrNoRecord), "%v", err)
		})
		_, err := store.Load(t.Context(), user17)
		requireError(t, err, tokens.ErrNoRecord, "a refresh brought a deleted user back")
	}
}

// deleteAmongSaves has all callers disconnect a user, who authorizes again as soon as
// the first has: only the token of before is deleted.
func deleteAmongSaves(t *testing.T, open opener) {
	for round := range 5 {
		record := save(t, open(), user17, round)
		runConcurrently(open, func(store tokens.Store, owner string) {
			err := store.DeleteVersion(t.Context(), user17, record.Version)
			assert.True(t, err == nil || errors.Is(err, tokens.ErrConflict), "%v", err)
			if owner == "replica 0 caller 0" {
				_, err = store.Save(t.Context(), user17, sample(user17, 77))
				assert.NoError(t, err)
			}
		})
		_, err := open().Load(t.Context(), user17)
		require.NoError(t, err, "what the user authorized anew was deleted")
	}
}

// saveVersionRaces lets all callers replace the same version: one of them does, and the
// others learn that they did not. The first round creates the record.
func saveVersionRaces(t *testing.T, open opener) {
	var version int64
	for round := range 5 {
		var won atomic.Int64
		runConcurrently(open, func(store tokens.Store, owner string) {
			record, err := store.SaveVersion(t.Context(), user17, version, sample(user17, round))
			if err == nil {
				won.Add(1)
				assert.Greater(t, record.Version, version)
				return
			}
			assert.ErrorIs(t, err, tokens.ErrConflict)
		})
		require.EqualValues(t, 1, won.Load())
		record := load(t, open(), user17)
		requireSameToken(t, sample(user17, round), record.Token)
		version = record.Version
	}
}

func firstSaves(t *testing.T, open opener) {
	var mu sync.Mutex
	seen := map[int64]bool{}
	runConcurrently(open, func(store tokens.Store, owner string) {
		for n := range 3 {
			record, err := store.Save(t.Context(), user17, sample(user17, n))
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			assert.False(t, seen[record.Version], "two writes have one version")
			seen[record.Version] = true
			mu.Unlock()
		}
	})
	last := load(t, open(), user17).Version
	for version := range seen {
		assert.GreaterOrEqual(t, last, version)
	}
}
