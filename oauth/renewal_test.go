package oauth_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestRefreshKeepsWhatTheAnswerLeavesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(answers(200, `{"oauth":{"access_token":"bare"}}`))
		w.requireToken(t, "bare")
		token := w.record(t).Token
		assert.Equal(t, "refresh-0", token.RefreshToken.Reveal())
		assert.Equal(t, "catalog:read clinic:read", token.Scope)
		assert.Equal(t, "prac-1", token.ResourceOwner.ID)
		assert.Equal(t, time.Now().Add(2*time.Hour), token.ExpiresAt)
	})
}

func TestReplicasRefreshOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.delay = 300 * time.Millisecond
		var wg sync.WaitGroup
		for range 4 {
			client := w.replica(t)
			for range 50 {
				wg.Go(func() {
					token, err := client.TokenSource(w.store, user).Token(t.Context())
					assert.NoError(t, err)
					assert.Equal(t, "access-1", token.Secret.Reveal())
				})
			}
		}
		wg.Wait()
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestDeadHolderBlocksNobodyLongerThanTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		dead := oauth.Lease{Key: w.client.Key(user), Version: w.record(t).Version, Owner: "died in the middle"}
		_, err := w.store.Lease(t.Context(), dead, oauth.DefaultLeaseTTL)
		require.NoError(t, err)
		began := time.Now()
		w.requireToken(t, "access-1")
		assert.GreaterOrEqual(t, time.Since(began), oauth.DefaultLeaseTTL)
		assert.LessOrEqual(t, time.Since(began), oauth.DefaultLeaseTTL+2*time.Second)
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestHolderThatNeverEndsIsGivenUpOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		greedy := oauth.Lease{Key: w.client.Key(user), Version: w.record(t).Version, Owner: "greedy"}
		_, err := w.store.Lease(t.Context(), greedy, time.Hour)
		require.NoError(t, err)
		_, err = w.source.Token(t.Context())
		require.ErrorIs(t, err, oauth.ErrLeased)
		assert.Empty(t, w.platform.sent())
	})
}

func TestLostAnswerIsTriedAgainWithTheOldToken(t *testing.T) {
	t.Parallel()
	for _, mode := range []rotation{none, grace} {
		t.Run(string(mode), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, mode, -time.Minute)
				w.platform.inject(loses)
				w.requireToken(t, "access-2")
				calls := w.platform.sent()
				require.Len(t, calls, 2)
				assert.Equal(t, "refresh-0", calls[0]["refresh_token"])
				assert.Equal(t, "refresh-0", calls[1]["refresh_token"])
			})
		})
	}
}

func TestLostAnswersAreOutlivedAcrossFlights(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(times(4, loses)...) // two flights, two tries each
		for range 2 {
			_, err := w.source.Token(t.Context())
			require.ErrorIs(t, err, api.ErrMaybeApplied)
			time.Sleep(time.Minute)
		}
		w.requireToken(t, "access-5")
		assert.Equal(t, oauth.StateActive, w.record(t).State)
	})
}

func TestLostAnswerWithoutGraceAsksTheUser(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.inject(loses)
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
	})
}

func TestTimeOutFitsIntoTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.delay = time.Hour
		began := time.Now()
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, api.ErrMaybeApplied)
		assert.Less(t, time.Since(began), oauth.DefaultLeaseTTL)
		assert.Len(t, w.platform.sent(), 2)
	})
}

func TestInvalidGrantAdoptsWhatAPeerStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.inject(func(func() *http.Response) (*http.Response, error) {
			newer := firstToken(time.Hour)
			newer.AccessToken = "access-peer"
			w.save(t, newer) // while the answer is under way
			return respond(400, `{"error":"invalid_grant"}`), nil
		})
		w.requireToken(t, "access-peer")
		assert.Equal(t, oauth.StateActive, w.record(t).State)
	})
}

func TestReauthorizeIsRememberedAndCallsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.kill("refresh-0")
		_, err := w.source.Token(t.Context())
		e := requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		var answer *api.Error
		require.ErrorAs(t, err, &answer)
		assert.Equal(t, "req-1", answer.RequestID)
		assert.Equal(t, w.client.Key(user), e.Key)
		assert.Equal(t, "prac-1", e.Owner.ID)
		address, err := e.AuthorizeURL("state-1")
		require.NoError(t, err)
		assert.Contains(t, address, "state=state-1")

		for _, client := range []*oauth.Client{w.client, w.replica(t)} {
			source := client.TokenSource(w.store, user)
			for range 10 {
				_, err = source.Token(t.Context())
				requireReauthorize(t, err, oauth.ReasonInvalidGrant)
				_, err = source.Refresh(t.Context(), firstToken(0).Access())
				requireReauthorize(t, err, oauth.ReasonInvalidGrant)
			}
		}
		assert.Len(t, w.platform.sent(), 1)
		assert.Contains(t, w.logs.String(), `"reason":"invalid_grant"`)

		renewed := firstToken(time.Hour)
		renewed.AccessToken = "access-renewed"
		w.save(t, renewed)
		w.requireToken(t, "access-renewed")
	})
}

func TestUserWhoIsNotConnected(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		_, err := w.client.TokenSource(w.store, "nobody").Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonNotConnected)
		require.ErrorIs(t, err, oauth.ErrNoRecord)
	})
}

func TestTokenThatCannotBeRefreshed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		token := firstToken(-time.Minute)
		token.RefreshToken = ""
		w.save(t, token)
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonNoRefreshToken)
		assert.Equal(t, oauth.StateReauthorize, w.record(t).State)
		assert.Empty(t, w.platform.sent())
	})
}

func TestLeaseThatCannotBeReleasedEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(times(2, answers(500, ""))...)
		w.store.breaks("Release", assert.AnError)
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrServer)
		assert.Contains(t, w.logs.String(), "lease could not be released")
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-1")
	})
}

func TestMarkThatCannotBeStoredStillTellsTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.kill("refresh-0")
		w.store.breaks("Fail", assert.AnError)
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		assert.Equal(t, oauth.StateActive, w.record(t).State)
		assert.Contains(t, w.logs.String(), "could not store that a user must authorize again")
	})
}

func TestScopesAddedToTheApplication(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		before := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = []string{"clinic:read", "catalog:read"} })
		token, err := before.Exchange(t.Context(), "code")
		require.NoError(t, err)
		assert.Equal(t, "catalog:read clinic:read", token.ConfiguredScope)
		w.save(t, token)

		fewer := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = []string{"catalog:read"} })
		_, err = fewer.TokenSource(w.store, user).Token(t.Context())
		require.NoError(t, err)

		after := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = []string{"clinic:read", "catalog:read", "clinic:write"} })
		_, err = after.TokenSource(w.store, user).Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonScopesExtended)
		assert.Equal(t, oauth.StateReauthorize, w.record(t).State)
		assert.Len(t, w.platform.sent(), 1, "only the exchange")
	})
}

func TestScopesAddedWhileAPeerHasTheLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		token := firstToken(time.Hour)
		token.ConfiguredScope = "catalog:read"
		lease := oauth.Lease{Key: w.client.Key(user), Version: w.save(t, token).Version, Owner: "peer"}
		_, err := w.store.Lease(t.Context(), lease, time.Minute)
		require.NoError(t, err)
		client := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = []string{"catalog:read", "clinic:write"} })
		_, err = client.TokenSource(w.store, user).Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonScopesExtended)
		assert.Equal(t, oauth.StateActive, w.record(t).State, "left to the next caller")
	})
}
