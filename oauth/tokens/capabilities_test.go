package tokens_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func TestRefreshDueIsSpread(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		now := time.Now()
		due := map[time.Time]bool{}
		for i := range 1000 {
			token := oauthtest.FirstToken(2 * time.Hour)
			token.AccessToken = api.Secret(fmt.Sprint("access-", i))
			at := tokens.DueAt(token)
			assert.Equal(t, at, tokens.DueAt(token), "it follows from the token")
			assert.False(t, at.Before(now.Add(78*time.Minute)))
			assert.True(t, at.Before(now.Add(102*time.Minute)))
			due[at.Truncate(time.Minute)] = true
		}
		assert.Greater(t, len(due), 20, "spread over 24 minutes")
	})
}

func TestSomeTokensAreNeverDue(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		token := oauthtest.FirstToken(time.Hour)
		token.RefreshToken = ""
		assert.True(t, tokens.DueAt(token).IsZero())
		token = oauthtest.FirstToken(time.Hour)
		token.ExpiresAt = time.Time{}
		assert.True(t, tokens.DueAt(token).IsZero())
		token = oauthtest.FirstToken(time.Hour)
		token.Lifetime = 0
		assert.False(t, tokens.DueAt(token).IsZero())
	})
}

func TestMemoryStoreLists(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, ctx := tokens.NewMemoryStore(), t.Context()
		for i := range 25 {
			_, err := store.Save(ctx, tokens.Key{Environment: oauthtest.USSandbox, User: fmt.Sprintf("user-%02d", i)}, oauthtest.FirstToken(time.Hour))
			require.NoError(t, err)
		}
		_, err := store.Save(ctx, tokens.Key{Environment: oauthtest.CASandbox, User: "elsewhere"}, func() oauth.Token {
			token := oauthtest.FirstToken(time.Hour)
			token.Environment = oauthtest.CASandbox
			return token
		}())
		require.NoError(t, err)

		var users []string
		for after := ""; ; {
			page, err := store.List(ctx, tokens.Listing{Environment: oauthtest.USSandbox, After: after, Limit: 10})
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, record := range page {
				users = append(users, record.Key.User)
				assert.Empty(t, record.Token.AccessToken)
				assert.Empty(t, record.Token.RefreshToken)
				assert.Equal(t, "prac-1", record.Token.ResourceOwner.ID)
			}
			after = users[len(users)-1]
		}
		assert.Len(t, users, 25)
		assert.IsIncreasing(t, users)

		key := tokens.Key{Environment: oauthtest.USSandbox, User: "user-03"}
		record, err := store.Load(ctx, key)
		require.NoError(t, err)
		assert.Equal(t, "access-0", record.Token.AccessToken.Reveal(), "the list took nothing away")
		lease := tokens.Lease{Key: key, Version: record.Version, Owner: "me"}
		_, err = store.Lease(ctx, lease, time.Minute)
		require.NoError(t, err)
		_, err = store.Fail(ctx, lease, tokens.ReasonInvalidGrant)
		require.NoError(t, err)
		page, err := store.List(ctx, tokens.Listing{Environment: oauthtest.USSandbox, State: tokens.StateReauthorize, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page, 1)
		assert.Equal(t, key, page[0].Key)
	})
}

func TestMemoryStoreClaims(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, ctx := tokens.NewMemoryStore(), t.Context()
		save := func(user string, change func(*oauth.Token)) tokens.Key {
			token := oauthtest.FirstToken(time.Minute)
			token.UsedAt = time.Now()
			change(&token)
			key := tokens.Key{Environment: token.Environment, User: user}
			_, err := store.Save(ctx, key, token)
			require.NoError(t, err)
			return key
		}
		late := save("late", func(*oauth.Token) {})
		later := save("later", func(token *oauth.Token) { token.ExpiresAt = token.ExpiresAt.Add(time.Second) })
		save("fresh", func(token *oauth.Token) { token.ExpiresAt = time.Now().Add(2 * time.Hour) })
		save("without", func(token *oauth.Token) { token.RefreshToken = "" })
		save("abroad", func(token *oauth.Token) { token.Environment = oauthtest.CASandbox })
		idle := save("idle", func(token *oauth.Token) { token.UsedAt = time.Now().Add(-48 * time.Hour) })
		due := tokens.Due{
			Environment: oauthtest.USSandbox, Before: time.Now(), UsedSince: time.Now().Add(-24 * time.Hour),
			Limit: 10, Owner: "replica-1", TTL: 30 * time.Second,
		}
		claim := func(change func(*tokens.Due)) []tokens.Key {
			d := due
			change(&d)
			records, err := store.ClaimDue(ctx, d)
			require.NoError(t, err)
			var keys []tokens.Key
			for _, record := range records {
				keys = append(keys, record.Key)
				assert.NotEmpty(t, record.Token.RefreshToken)
			}
			return keys
		}
		assert.Equal(t, []tokens.Key{late}, claim(func(d *tokens.Due) { d.Limit = 1 }), "the earliest first")
		assert.Equal(t, []tokens.Key{later}, claim(func(d *tokens.Due) { d.Owner = "replica-2" }), "each to one replica")
		assert.Empty(t, claim(func(*tokens.Due) {}))
		assert.Equal(t, []tokens.Key{idle}, claim(func(d *tokens.Due) { d.UsedSince = time.Time{} }), "all users")

		// The lease is one as any other.
		record, err := store.Load(ctx, late)
		require.NoError(t, err)
		_, err = store.Lease(ctx, tokens.Lease{Key: late, Version: record.Version, Owner: "replica-2"}, time.Minute)
		require.ErrorIs(t, err, tokens.ErrLeased)
		_, err = store.Commit(ctx, tokens.Lease{Key: late, Version: record.Version, Owner: "replica-1"}, oauthtest.FirstToken(2*time.Hour))
		require.NoError(t, err)
		time.Sleep(31 * time.Second)
		assert.Equal(t, []tokens.Key{later}, claim(func(*tokens.Due) {}), "what a dead replica held")
	})
}
