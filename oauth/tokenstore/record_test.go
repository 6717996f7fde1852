package tokenstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

var storeKey = tokenstore.Key{Environment: oauthtest.USSandbox, User: oauthtest.User}

// take takes the lease on a record for 1 minute.
func take(t *testing.T, store tokenstore.Store, record tokenstore.Record, owner string) tokenstore.Lease {
	t.Helper()
	lease := tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: owner}
	_, err := store.Lease(t.Context(), lease, time.Minute)
	require.NoError(t, err)
	return lease
}

// A key is invalid if a store could confuse two users or change the user's ID.
func TestKeyValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, tokenstore.Key{Environment: oauthtest.USSandbox, User: "ünïcode 17"}.Validate())
	require.NoError(t, tokenstore.Key{Environment: oauthtest.USSandbox, User: strings.Repeat("x", 255)}.Validate())
	for name, key := range map[string]tokenstore.Key{
		"no environment":     {User: oauthtest.User},
		"no user":            {Environment: oauthtest.USSandbox},
		"too long":           {Environment: oauthtest.USSandbox, User: strings.Repeat("x", 256)},
		"not UTF-8":          {Environment: oauthtest.USSandbox, User: "a\xff"},
		"control characters": {Environment: oauthtest.USSandbox, User: "a\x00b"},
		"space before":       {Environment: oauthtest.USSandbox, User: " a"},
		"space after":        {Environment: oauthtest.USSandbox, User: "a "},
	} {
		require.Error(t, key.Validate(), name)
	}
}

// KeepFresh would refresh a token forever if it had no expiry or no refresh token.
func TestTokensWithoutExpiryAreNeverDue(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		token := oauthtest.FirstToken(time.Hour)
		token.RefreshToken = api.Secret{}
		assert.Zero(t, tokenstore.DueAt(token))
		token = oauthtest.FirstToken(time.Hour)
		token.ExpiresAt = time.Time{}
		assert.Zero(t, tokenstore.DueAt(token))
		token = oauthtest.FirstToken(time.Hour)
		token.Lifetime = 0
		assert.NotZero(t, tokenstore.DueAt(token), "a token without a lifetime has the default lifetime")
	})
}

func TestDueTimesAreSpread(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		now := time.Now()
		due := map[time.Time]bool{}
		for i := range 1000 {
			token := oauthtest.FirstToken(2 * time.Hour)
			token.AccessToken = api.NewSecret(fmt.Sprint("access-", i))
			at := tokenstore.DueAt(token)
			assert.Equal(t, at, tokenstore.DueAt(token), "the due time depends only on the token")
			assert.False(t, at.Before(now.Add(78*time.Minute)))
			assert.True(t, at.Before(now.Add(102*time.Minute)))
			due[at.Truncate(time.Minute)] = true
		}
		assert.Greater(t, len(due), 20, "due times are spread over 24 minutes")
	})
}

func TestMemoryStoreDeletesOldFlows(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, claim := tokenstore.NewMemoryStore(), tokenstore.FlowClaim{Environment: oauthtest.USSandbox, Flow: "flow-1", Owner: "a"}
		result := func() string {
			result, err := store.ClaimFlow(t.Context(), claim, time.Minute)
			require.NoError(t, err)
			return result
		}
		assert.Empty(t, result())
		require.NoError(t, store.EndFlow(t.Context(), claim, "connected"))
		time.Sleep(defaults.FlowRetention)
		assert.Equal(t, "connected", result())
		time.Sleep(time.Hour)
		assert.Empty(t, result())
	})
}
