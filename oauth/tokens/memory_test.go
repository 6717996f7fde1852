package tokens_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

var storeKey = tokens.Key{Environment: oauthtest.USSandbox, User: user}

// saved returns a store with one record.
func saved(t *testing.T) (*tokens.MemoryStore, tokens.Record) {
	t.Helper()
	store := tokens.NewMemoryStore()
	record, err := store.Save(t.Context(), storeKey, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	return store, record
}

// take takes the lease on a record for a minute.
func take(t *testing.T, store tokens.Store, record tokens.Record, owner string) tokens.Lease {
	t.Helper()
	lease := tokens.Lease{Key: record.Key, Version: record.Version, Owner: owner}
	_, err := store.Lease(t.Context(), lease, time.Minute)
	require.NoError(t, err)
	return lease
}

func TestStoreSaveAndLoad(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	assert.Equal(t, storeKey, record.Key)
	assert.Equal(t, tokens.StateActive, record.State)
	assert.Positive(t, record.Version)
	loaded, err := store.Load(t.Context(), storeKey)
	require.NoError(t, err)
	assert.Equal(t, record, loaded)

	for _, other := range []tokens.Key{
		{Environment: oauthtest.CASandbox, User: user}, {Environment: oauthtest.USSandbox, User: "USER-17"}, {Environment: oauthtest.USSandbox, User: "user-1"},
	} {
		_, err = store.Load(t.Context(), other)
		require.ErrorIs(t, err, tokens.ErrNoRecord)
	}
}

func TestStoreSaveRefuses(t *testing.T) {
	t.Parallel()
	store := tokens.NewMemoryStore()
	_, err := store.Save(t.Context(), tokens.Key{Environment: oauthtest.CASandbox, User: user}, oauthtest.FirstToken(time.Hour))
	require.ErrorIs(t, err, api.ErrWrongEnvironment)
	_, err = store.Save(t.Context(), tokens.Key{Environment: oauthtest.USSandbox}, oauthtest.FirstToken(time.Hour))
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	_, err = store.Save(t.Context(), storeKey, oauth.Token{Environment: oauthtest.USSandbox})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	_, err = store.Commit(t.Context(), tokens.Lease{Key: storeKey}, oauth.Token{Environment: oauthtest.USSandbox})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
}

func TestStoreVersionsAreNeverReused(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	seen := record.Version
	again, err := store.Save(t.Context(), storeKey, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	assert.Greater(t, again.Version, seen)
	require.NoError(t, store.Delete(t.Context(), storeKey))
	require.NoError(t, store.Delete(t.Context(), storeKey), "twice is no error")
	reborn, err := store.Save(t.Context(), storeKey, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	assert.Greater(t, reborn.Version, again.Version)
}

func TestStoreLease(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, record := saved(t)
		lease := tokens.Lease{Key: storeKey, Version: record.Version, Owner: "a"}
		got, err := store.Lease(t.Context(), lease, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, record, got, "a lease changes nothing")

		rival := tokens.Lease{Key: storeKey, Version: record.Version, Owner: "b"}
		_, err = store.Lease(t.Context(), rival, time.Minute)
		require.ErrorIs(t, err, tokens.ErrLeased)
		time.Sleep(50 * time.Second)
		_, err = store.Lease(t.Context(), lease, time.Minute)
		require.NoError(t, err, "its owner prolongs it")
		time.Sleep(50 * time.Second)
		_, err = store.Lease(t.Context(), rival, time.Minute)
		require.ErrorIs(t, err, tokens.ErrLeased)
		time.Sleep(10 * time.Second)
		_, err = store.Lease(t.Context(), rival, time.Minute)
		require.NoError(t, err, "it has run out")

		_, err = store.Lease(t.Context(), tokens.Lease{Key: storeKey, Version: record.Version + 1, Owner: "c"}, time.Minute)
		require.ErrorIs(t, err, tokens.ErrConflict)
		_, err = store.Lease(t.Context(), tokens.Lease{Key: tokens.Key{User: "x"}, Owner: "c"}, time.Minute)
		require.ErrorIs(t, err, tokens.ErrNoRecord)
	})
}

func TestStoreCommit(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, record := saved(t)
		lease := take(t, store, record, "a")
		next := oauthtest.FirstToken(2 * time.Hour)
		next.AccessToken = "access-next"
		committed, err := store.Commit(t.Context(), lease, next)
		require.NoError(t, err)
		assert.Equal(t, next, committed.Token)
		assert.Greater(t, committed.Version, record.Version)

		_, err = store.Commit(t.Context(), lease, next)
		require.ErrorIs(t, err, tokens.ErrConflict, "the version has moved")
		_, err = store.Commit(t.Context(), tokens.Lease{Key: storeKey, Version: committed.Version, Owner: "a"}, next)
		require.ErrorIs(t, err, tokens.ErrConflict, "the lease is over")
		_, err = store.Commit(t.Context(), tokens.Lease{Key: storeKey, Version: committed.Version}, next)
		require.ErrorIs(t, err, tokens.ErrConflict, "no owner owns nothing")
		take(t, store, committed, "b")
	})
}

func TestStoreCommitAfterTheLeaseRanOut(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, record := saved(t)
		late := take(t, store, record, "late")
		time.Sleep(time.Hour)
		committed, err := store.Commit(t.Context(), late, oauthtest.FirstToken(time.Hour))
		require.NoError(t, err, "no other lease has been taken")

		late = take(t, store, committed, "late")
		time.Sleep(time.Hour)
		take(t, store, committed, "rival")
		_, err = store.Commit(t.Context(), late, oauthtest.FirstToken(time.Hour))
		require.ErrorIs(t, err, tokens.ErrConflict)
	})
}

func TestStoreFail(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	lease := take(t, store, record, "a")
	failed, err := store.Fail(t.Context(), lease, tokens.ReasonInvalidGrant)
	require.NoError(t, err)
	assert.Equal(t, tokens.StateReauthorize, failed.State)
	assert.Equal(t, tokens.ReasonInvalidGrant, failed.Reason)
	assert.Equal(t, record.Token, failed.Token, "who it was stays known")
	assert.Greater(t, failed.Version, record.Version)
	_, err = store.Fail(t.Context(), lease, tokens.ReasonInvalidGrant)
	require.ErrorIs(t, err, tokens.ErrConflict)

	lease = take(t, store, failed, "b") // in any state
	back, err := store.Commit(t.Context(), lease, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	assert.Equal(t, tokens.StateActive, back.State)
	assert.Empty(t, back.Reason)
}

func TestStoreRelease(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	lease := take(t, store, record, "a")
	require.NoError(t, store.Release(t.Context(), tokens.Lease{Key: storeKey, Version: record.Version, Owner: "b"}))
	_, err := store.Lease(t.Context(), tokens.Lease{Key: storeKey, Version: record.Version, Owner: "b"}, time.Minute)
	require.ErrorIs(t, err, tokens.ErrLeased, "not b's to release")
	require.NoError(t, store.Release(t.Context(), lease))
	require.NoError(t, store.Release(t.Context(), lease), "twice is no error")
	_, err = store.Commit(t.Context(), lease, oauthtest.FirstToken(time.Hour))
	require.ErrorIs(t, err, tokens.ErrConflict)
	take(t, store, record, "b")
	require.NoError(t, store.Release(t.Context(), tokens.Lease{Key: tokens.Key{User: "x"}}))
}

func TestStoreSaveEndsALease(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	lease := take(t, store, record, "a")
	again, err := store.Save(t.Context(), storeKey, oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	_, err = store.Commit(t.Context(), lease, oauthtest.FirstToken(time.Hour))
	require.ErrorIs(t, err, tokens.ErrConflict)
	take(t, store, again, "b")
}

func TestStoreOfOneRecordHasOneWinner(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var won int
	for i := range 100 {
		wg.Go(func() {
			lease := tokens.Lease{Key: storeKey, Version: record.Version, Owner: fmt.Sprint(i)}
			if _, err := store.Lease(t.Context(), lease, time.Minute); err != nil {
				return
			}
			_, err := store.Commit(t.Context(), lease, oauthtest.FirstToken(time.Hour))
			assert.NoError(t, err)
			mu.Lock()
			won++
			mu.Unlock()
		})
	}
	wg.Wait()
	assert.Equal(t, 1, won)
}

func TestStoreHonoursContext(t *testing.T) {
	t.Parallel()
	store, record := saved(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lease := tokens.Lease{Key: storeKey, Version: record.Version, Owner: "a"}
	for name, call := range map[string]func() error{
		"Load":    func() error { _, err := store.Load(ctx, storeKey); return err },
		"Save":    func() error { _, err := store.Save(ctx, storeKey, oauthtest.FirstToken(0)); return err },
		"Delete":  func() error { return store.Delete(ctx, storeKey) },
		"Lease":   func() error { _, err := store.Lease(ctx, lease, time.Minute); return err },
		"Commit":  func() error { _, err := store.Commit(ctx, lease, oauthtest.FirstToken(0)); return err },
		"Fail":    func() error { _, err := store.Fail(ctx, lease, tokens.ReasonInvalidGrant); return err },
		"Release": func() error { return store.Release(ctx, lease) },
	} {
		require.ErrorIs(t, call(), context.Canceled, name)
	}
	_, err := store.Load(t.Context(), storeKey)
	require.NoError(t, err, "nothing was changed")
}

func TestKeyValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, tokens.Key{Environment: oauthtest.USSandbox, User: "ünïcode 17"}.Validate())
	require.NoError(t, tokens.Key{Environment: oauthtest.USSandbox, User: strings.Repeat("x", 255)}.Validate())
	for name, key := range map[string]tokens.Key{
		"no environment":     {User: user},
		"no user":            {Environment: oauthtest.USSandbox},
		"too long":           {Environment: oauthtest.USSandbox, User: strings.Repeat("x", 256)},
		"not UTF-8":          {Environment: oauthtest.USSandbox, User: "a\xff"},
		"control characters": {Environment: oauthtest.USSandbox, User: "a\x00b"},
		"space before":       {Environment: oauthtest.USSandbox, User: " a"},
		"space after":        {Environment: oauthtest.USSandbox, User: "a "},
	} {
		require.Error(t, key.Validate(), name)
	}
	assert.Equal(t, "us/sandbox/user-17", storeKey.String())
}
