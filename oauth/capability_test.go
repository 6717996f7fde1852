package oauth_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestRefreshDueIsSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		now := time.Now()
		due := map[time.Time]bool{}
		for i := range 1000 {
			token := firstToken(2 * time.Hour)
			token.AccessToken = api.Secret(fmt.Sprint("access-", i))
			at := token.RefreshDue()
			assert.Equal(t, at, token.RefreshDue(), "it follows from the token")
			assert.False(t, at.Before(now.Add(78*time.Minute)))
			assert.True(t, at.Before(now.Add(102*time.Minute)))
			due[at.Truncate(time.Minute)] = true
		}
		assert.Greater(t, len(due), 20, "spread over 24 minutes")
	})
}

func TestSomeTokensAreNeverDue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		token := firstToken(time.Hour)
		token.RefreshToken = ""
		assert.True(t, token.RefreshDue().IsZero())
		token = firstToken(time.Hour)
		token.ExpiresAt = time.Time{}
		assert.True(t, token.RefreshDue().IsZero())
		token = firstToken(time.Hour)
		token.Lifetime = 0
		assert.False(t, token.RefreshDue().IsZero())
	})
}

func TestMemoryStoreLists(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, ctx := oauth.NewMemoryStore(), t.Context()
		for i := range 25 {
			_, err := store.Save(ctx, oauth.Key{Environment: usSandbox, User: fmt.Sprintf("user-%02d", i)}, firstToken(time.Hour))
			require.NoError(t, err)
		}
		_, err := store.Save(ctx, oauth.Key{Environment: caSandbox, User: "elsewhere"}, func() oauth.Token {
			token := firstToken(time.Hour)
			token.Environment = caSandbox
			return token
		}())
		require.NoError(t, err)

		var users []string
		for after := ""; ; {
			page, err := store.List(ctx, oauth.Listing{Environment: usSandbox, After: after, Limit: 10})
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

		key := oauth.Key{Environment: usSandbox, User: "user-03"}
		record, err := store.Load(ctx, key)
		require.NoError(t, err)
		assert.Equal(t, "access-0", record.Token.AccessToken.Reveal(), "the list took nothing away")
		lease := oauth.Lease{Key: key, Version: record.Version, Owner: "me"}
		_, err = store.Lease(ctx, lease, time.Minute)
		require.NoError(t, err)
		_, err = store.Fail(ctx, lease, oauth.ReasonInvalidGrant)
		require.NoError(t, err)
		page, err := store.List(ctx, oauth.Listing{Environment: usSandbox, State: oauth.StateReauthorize, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page, 1)
		assert.Equal(t, key, page[0].Key)
	})
}

func TestMemoryStoreClaims(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store, ctx := oauth.NewMemoryStore(), t.Context()
		save := func(user string, change func(*oauth.Token)) oauth.Key {
			token := firstToken(time.Minute)
			token.UsedAt = time.Now()
			change(&token)
			key := oauth.Key{Environment: token.Environment, User: user}
			_, err := store.Save(ctx, key, token)
			require.NoError(t, err)
			return key
		}
		late := save("late", func(*oauth.Token) {})
		later := save("later", func(token *oauth.Token) { token.ExpiresAt = token.ExpiresAt.Add(time.Second) })
		save("fresh", func(token *oauth.Token) { token.ExpiresAt = time.Now().Add(2 * time.Hour) })
		save("without", func(token *oauth.Token) { token.RefreshToken = "" })
		save("abroad", func(token *oauth.Token) { token.Environment = caSandbox })
		idle := save("idle", func(token *oauth.Token) { token.UsedAt = time.Now().Add(-48 * time.Hour) })
		due := oauth.Due{
			Environment: usSandbox, Before: time.Now(), UsedSince: time.Now().Add(-24 * time.Hour),
			Limit: 10, Owner: "replica-1", TTL: 30 * time.Second,
		}
		claim := func(change func(*oauth.Due)) []oauth.Key {
			d := due
			change(&d)
			records, err := store.ClaimDue(ctx, d)
			require.NoError(t, err)
			var keys []oauth.Key
			for _, record := range records {
				keys = append(keys, record.Key)
				assert.NotEmpty(t, record.Token.RefreshToken)
			}
			return keys
		}
		assert.Equal(t, []oauth.Key{late}, claim(func(d *oauth.Due) { d.Limit = 1 }), "the earliest first")
		assert.Equal(t, []oauth.Key{later}, claim(func(d *oauth.Due) { d.Owner = "replica-2" }), "each to one replica")
		assert.Empty(t, claim(func(*oauth.Due) {}))
		assert.Equal(t, []oauth.Key{idle}, claim(func(d *oauth.Due) { d.UsedSince = time.Time{} }), "everybody")

		// The lease is one as any other.
		record, err := store.Load(ctx, late)
		require.NoError(t, err)
		_, err = store.Lease(ctx, oauth.Lease{Key: late, Version: record.Version, Owner: "replica-2"}, time.Minute)
		require.ErrorIs(t, err, oauth.ErrLeased)
		_, err = store.Commit(ctx, oauth.Lease{Key: late, Version: record.Version, Owner: "replica-1"}, firstToken(2*time.Hour))
		require.NoError(t, err)
		time.Sleep(31 * time.Second)
		assert.Equal(t, []oauth.Key{later}, claim(func(*oauth.Due) {}), "what a dead replica held")
	})
}
