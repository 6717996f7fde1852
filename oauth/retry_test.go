package oauth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
)

// mark lets the platform refuse the user's refresh token once, wrongly.
func (w *world) mark(t *testing.T) {
	t.Helper()
	w.platform.inject(answers(401, `{"error":"invalid_grant"}`))
	_, err := w.source.Token(t.Context())
	requireReauthorize(t, err, oauth.ReasonInvalidGrant)
}

// A platform that refused a refresh token and knows it later on gets its user back
// without anybody's help.
func TestAMarkedUserIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		a := w.watched(t, oauth.BreakerPolicy{})
		w.mark(t)
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		require.Len(t, w.platform.sent(), 1, "not at once")
		time.Sleep(2 * time.Minute)
		w.requireToken(t, "access-1")
		assert.Equal(t, oauth.StateActive, w.record(t).State)
		assert.Equal(t, []oauth.Restored{{Key: w.client.Key(user)}}, eventsOf[oauth.Restored](a))
	})
}

// Who has really revoked the application costs less and less.
func TestAMarkedUserIsTriedLessAndLess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		a := w.watched(t, oauth.BreakerPolicy{Users: 1000})
		peer := w.replica(t).TokenSource(w.store, user)
		w.platform.forgetAll()
		for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); time.Sleep(10 * time.Second) {
			for _, source := range []*oauth.UserTokenSource{w.source, peer} {
				_, err := source.Token(t.Context())
				requireReauthorize(t, err, oauth.ReasonInvalidGrant)
			}
		}
		assert.Less(t, len(w.platform.sent()), 80)
		assert.Greater(t, len(w.platform.sent()), 20)
		assert.Len(t, eventsOf[oauth.MustReauthorize](a), 1, "the user is asked once")
		_, paused := w.client.RefreshPaused()
		assert.False(t, paused)
	})
}

func TestAFailingRetryLeavesTheUserMarked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.mark(t)
		time.Sleep(2 * time.Minute)
		w.platform.inject(answers(500, ""), answers(500, ""))
		for range 3 {
			_, err := w.source.Token(t.Context())
			requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		}
		assert.Len(t, w.platform.sent(), 3, "the answer was asked for twice")
		time.Sleep(2 * time.Minute)
		w.platform.replace()
		w.requireToken(t, "access-1")
	})
}

func TestNobodyElseIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, reason := range []oauth.Reason{oauth.ReasonDisconnecting, oauth.ReasonNoRefreshToken, "one_of_tomorrow"} {
		t.Run(string(reason), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, -time.Minute)
				record := w.record(t)
				lease := oauth.Lease{Key: record.Key, Version: record.Version, Owner: "a"}
				_, err := w.store.Lease(t.Context(), lease, time.Minute)
				require.NoError(t, err)
				_, err = w.store.Fail(t.Context(), lease, reason)
				require.NoError(t, err)
				time.Sleep(24 * time.Hour)
				_, err = w.source.Token(t.Context())
				requireReauthorize(t, err, reason)
				assert.Empty(t, w.platform.sent())
			})
		})
	}
}

// Scopes that were put into the configuration by mistake and taken out again log
// nobody out.
func TestScopesTakenBackBringTheUserBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		token := firstToken(time.Hour)
		token.ConfiguredScope = "catalog:read"
		w.save(t, token)
		mistaken := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = []string{"catalog:read", "clinic:write"} })
		_, err := mistaken.TokenSource(w.store, user).Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonScopesExtended)
		time.Sleep(5 * time.Minute)
		_, err = mistaken.TokenSource(w.store, user).Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonScopesExtended)
		assert.Empty(t, w.platform.sent())
		w.requireToken(t, "access-1")
	})
}
