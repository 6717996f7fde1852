package tokens_test

import (
	"errors"
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

// While the token endpoint fails for all users, only a few requests are sent to it, and
// once it works again no user waits for long.
func TestAFailingEndpointIsSpared(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{"500": oauthtest.Answers(500, ""), "HTML": oauthtest.Answers(200, html), "reset": oauthtest.Drops, "403": oauthtest.Answers(403, html)}, func(t *testing.T, f oauthtest.Fault) {
		const users = 200
		w := newFixture(t, oauthtest.RotateAtOnce, 24*time.Hour)
		w.connect(t, users, -time.Minute)
		w.platform.Inject(oauthtest.Times(100_000, f)...)
		calls := make([]func() error, users)
		for i := range calls {
			source := w.conns.TokenSource(fmt.Sprintf("many-%d", i))
			calls[i] = func() error { _, err := source.Token(t.Context()); return err }
		}
		for range 120 {
			for _, err := range together(calls) {
				require.Error(t, err)
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
				var answer *api.Error
				require.ErrorAs(t, err, &answer, "the platform's own answer")
			}
			time.Sleep(5 * time.Second)
		}
		first := 2 * users // all of them at once, each twice where no answer came
		assert.LessOrEqual(t, len(w.platform.Sent()), first+2*600, "then one user a second")
		w.platform.Replace()
		time.Sleep(30 * time.Second)
		left := users
		for range 10 {
			left = 0
			for _, err := range together(calls) {
				if err != nil {
					left++
				}
			}
			if left == 0 {
				break
			}
			time.Sleep(time.Second)
		}
		assert.Zero(t, left)
	})
}

// Nor does the refresher claim tokens for it over and over.
func TestKeepFreshClaimsNothingForAFailingEndpoint(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 200, time.Minute)
		w.platform.Inject(oauthtest.Times(100_000, oauthtest.Answers(500, ""))...)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		for range 600 { // calls keep the endpoint known as failing
			for i := range 10 {
				_, _ = w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
			}
			time.Sleep(time.Second)
		}
		assert.Less(t, w.store.Count("ClaimDue"), 100)
		assert.Less(t, w.store.Count("Release"), 5000)
		w.platform.Replace()
		time.Sleep(5 * time.Minute)
		assert.Less(t, w.store.Count("ClaimDue"), 300)
		due, err := w.store.ClaimDue(t.Context(), tokens.Due{Environment: oauthtest.USSandbox, Before: time.Now(), Limit: 300, Owner: "me", TTL: time.Second})
		require.NoError(t, err)
		assert.Empty(t, due, "all are made up for")
	})
}

// The platform may ask all users to wait.
func TestAnEndpointThatAsksToWaitIsLeftAlone(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 20, -time.Minute)
		w.platform.Inject(oauthtest.Times(100, oauthtest.RetryAfter("60"))...)
		token := func(i int) error {
			_, err := w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
			return err
		}
		for i := range 20 {
			require.ErrorIs(t, token(i), api.ErrRateLimited)
			time.Sleep(2 * time.Second)
		}
		assert.Len(t, w.platform.Sent(), 5)
		time.Sleep(time.Minute)
		w.platform.Replace()
		for i := range 20 {
			require.NoError(t, token(i))
		}
	})
}

// One user whose refreshes always fail does not delay the others, however often they fail.
func TestAFailingUserDoesNotDelayOthers(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.connect(t, 1, -time.Minute)
		w.platform.Inject(oauthtest.Times(40, oauthtest.RetryAfter("30"))...)
		for range 40 {
			_, err := w.source.Token(t.Context())
			require.ErrorIs(t, err, api.ErrRateLimited)
			time.Sleep(31 * time.Second)
		}
		w.platform.Inject(oauthtest.Answers(500, ""), oauthtest.Answers(500, ""))
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrServer)
		_, err = w.conns.TokenSource("many-0").Token(t.Context())
		require.NoError(t, err)
	})
}

// The store's own trouble says nothing about the endpoint.
func TestAFailingStoreDoesNotCountAgainstTheEndpoint(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 20, -time.Minute)
		w.store.Break("Lease", errors.New("away"))
		for i := range 19 {
			_, err := w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
			require.Error(t, err)
		}
		w.store.Break("Lease", nil)
		_, err := w.conns.TokenSource("many-19").Token(t.Context())
		require.NoError(t, err)
	})
}
