package oauth_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

const html = "<html><body>502 Bad Gateway</body></html>"

func TestFailuresOfTheMomentLogNobodyOut(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"500":                 answers(500, `{"error":"oops"}`),
		"502 with HTML":       answers(502, html),
		"503":                 answers(503, ``),
		"HTML with 200":       answers(200, html),
		"truncated":           answers(200, `{"oauth":{"access_token":"acc`),
		"no oauth wrapper":    answers(200, `{"access_token":"bare"}`),
		"no access token":     answers(200, `{"oauth":{"refresh_token":"r"}}`),
		"unusable token":      answers(200, `{"oauth":{"access_token":"a\nb"}}`),
		"429":                 answers(429, `{"error":"slow down"}`),
		"403 of a firewall":   answers(403, html),
		"404 of a proxy":      answers(404, html),
		"422 in plain words":  answers(422, `{"error":["no"]}`),
		"redirect":            answers(302, ``),
		"connection reset":    drops,
		"answer lost on way":  loses,
		"unknown code at 400": answers(400, `{"error":"something_new"}`),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, grace, time.Minute)
				w.platform.inject(times(2, f)...)
				w.requireToken(t, "access-0")
				require.NoError(t, w.client.Shutdown(t.Context()))
				assert.NotEmpty(t, w.platform.sent())
				w.requireToken(t, "access-0") // still valid, so still used
				assert.Equal(t, oauth.StateActive, w.record(t).State)

				time.Sleep(2 * time.Minute) // past its end
				w.platform.replace(times(2, f)...)
				_, err := w.source.Token(t.Context())
				var answer *api.Error
				require.ErrorAs(t, err, &answer)
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
				assert.Equal(t, oauth.StateActive, w.record(t).State)

				w.platform.replace()
				time.Sleep(time.Minute)
				_, err = w.source.Token(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// A replica that has to wait after a failure of its own uses what a peer has
// fetched meanwhile.
func TestCooldownFindsWhatAPeerStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, time.Hour)
		w.requireToken(t, "access-0")
		time.Sleep(2 * time.Hour)
		w.platform.inject(retryAfter("300"))
		for range 3 {
			_, err := w.source.Token(t.Context())
			require.ErrorIs(t, err, api.ErrRateLimited)
		}
		newer := firstToken(time.Hour)
		newer.AccessToken = "access-peer"
		w.save(t, newer)
		w.store.slow = time.Second
		loads := w.store.count("Load")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { w.requireToken(t, "access-peer") })
		}
		all.Wait()
		assert.Equal(t, loads+1, w.store.count("Load"), "callers share one look")
		token, err := w.source.Refresh(t.Context(), firstToken(0).Access())
		require.NoError(t, err)
		assert.Equal(t, "access-peer", token.Secret.Reveal())
	})
}

// A forced refresh in the pause finds it too.
func TestForcedRefreshInACooldownFindsWhatAPeerStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, time.Hour)
		w.platform.inject(retryAfter("300"))
		_, err := w.source.Refresh(t.Context(), firstToken(0).Access())
		require.ErrorIs(t, err, api.ErrRateLimited)
		newer := firstToken(time.Hour)
		newer.AccessToken = "access-peer"
		w.save(t, newer)
		token, err := w.source.Refresh(t.Context(), firstToken(0).Access())
		require.NoError(t, err)
		assert.Equal(t, "access-peer", token.Secret.Reveal())
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestLastSecondsOfATokenAreUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, 5*time.Second)
		w.platform.inject(times(2, answers(500, ""))...)
		w.requireToken(t, "access-0")
	})
}

func TestRefusedApplicationMarksNobody(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"invalid_client":      answers(401, `{"error":"invalid_client","error_description":"no"}`),
		"unauthorized_client": answers(400, `{"error":"unauthorized_client"}`),
		"redirect address":    answers(400, `{"error":"invalid_redirect_uri","error_description":"no"}`),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, grace, -time.Minute)
				a := w.watched(t, oauth.BreakerPolicy{})
				w.platform.inject(times(9, f)...)
				_, err := w.source.Token(t.Context())
				var refusal *oauth.ConfigError
				require.ErrorAs(t, err, &refusal)
				require.NotErrorIs(t, err, oauth.ErrReauthorize)
				assert.Equal(t, usSandbox, refusal.Environment)
				assert.Equal(t, oauth.StateActive, w.record(t).State)
				var answer *api.Error
				require.ErrorAs(t, err, &answer)

				// No other user is tried either.
				other := w.client.Key("other")
				_, err = w.store.Save(t.Context(), other, firstToken(-time.Minute))
				require.NoError(t, err)
				_, err = w.client.TokenSource(w.store, "other").Token(t.Context())
				require.ErrorAs(t, err, &refusal)
				assert.Len(t, w.platform.sent(), 1)

				// The alarm is raised once for all of it.
				time.Sleep(2 * time.Minute)
				_, err = w.source.Token(t.Context())
				require.ErrorAs(t, err, &refusal)
				require.Len(t, eventsOf[oauth.ConfigFault](a), 1)
				assert.Equal(t, refusal.Code, eventsOf[oauth.ConfigFault](a)[0].Err.Code)

				// Until the pause is over and the credentials are right again.
				w.platform.replace()
				time.Sleep(2 * time.Minute)
				w.requireToken(t, "access-1")
				_, err = w.client.TokenSource(w.store, "other").Token(t.Context())
				require.NoError(t, err)
			})
		})
	}
}

// What may be the fault of one refresh token is taken for the application's when a
// second user meets it.
func TestRefusalThatOneUserMeetsPausesNobody(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"invalid_request": answers(400, `{"error":"invalid_request"}`),
		"invalid_scope":   answers(400, `{"error":"invalid_scope"}`),
		"bare 401":        answers(401, ``),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, grace, -time.Minute)
				a := w.watched(t, oauth.BreakerPolicy{})
				w.connect(t, 3, -time.Minute)
				var refusal *oauth.ConfigError
				source := func(n int) *oauth.UserTokenSource {
					return w.client.TokenSource(w.store, fmt.Sprintf("many-%d", n))
				}
				for range 5 { // one refresh token that the platform cannot read
					w.platform.inject(f)
					_, err := w.source.Token(t.Context())
					require.ErrorAs(t, err, &refusal)
					_, paused := w.client.RefreshPaused()
					require.False(t, paused)
					time.Sleep(31 * time.Second)
				}
				_, err := source(0).Token(t.Context())
				require.NoError(t, err)
				assert.Empty(t, eventsOf[oauth.ConfigFault](a))

				w.platform.inject(f, f)
				_, err = w.source.Token(t.Context())
				require.ErrorAs(t, err, &refusal)
				_, err = source(1).Token(t.Context())
				require.ErrorAs(t, err, &refusal)
				assert.Len(t, eventsOf[oauth.ConfigFault](a), 1)
				sent := len(w.platform.sent())
				_, err = source(2).Token(t.Context())
				require.ErrorAs(t, err, &refusal)
				assert.Len(t, w.platform.sent(), sent, "the third is not tried")
				time.Sleep(2 * time.Minute)
				w.requireToken(t, "access-2")
			})
		})
	}
}

// The code comes out of a browser's address: whatever the platform says to it, the
// refreshes of others go on.
func TestARefusedCodePausesNobody(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"invalid_request", "invalid_client", "unauthorized_client", "redirect_uri_mismatch", "invalid_grant", ""} {
		t.Run(code, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, grace, -time.Minute)
				for i := range 3 {
					w.platform.inject(answers(401, `{"error":"`+code+`"}`))
					_, err := w.client.Connect(t.Context(), w.store, fmt.Sprintf("visitor-%d", i), "made-up", nil)
					require.Error(t, err)
				}
				_, paused := w.client.RefreshPaused()
				assert.False(t, paused)
				w.requireToken(t, "access-1")
			})
		})
	}
}

func TestFailuresAreNotHammered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(times(10_000, answers(500, ""))...)
		end := time.Now().Add(5 * time.Minute)
		for time.Now().Before(end) {
			_, err := w.source.Token(t.Context())
			require.ErrorIs(t, err, api.ErrServer)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Less(t, len(w.platform.sent()), 50, "the pauses grow to half a minute")
		assert.Greater(t, len(w.platform.sent()), 15)
	})
}

func TestRetryAfterIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(times(9, retryAfter("120"))...)
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrRateLimited)
		w.platform.replace()
		sent := len(w.platform.sent())
		time.Sleep(119 * time.Second)
		_, err = w.source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrRateLimited)
		assert.Len(t, w.platform.sent(), sent)
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-1")
	})
}
