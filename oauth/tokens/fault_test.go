package tokens_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

const html = "<html><body>502 Bad Gateway</body></html>"

func TestTemporaryFailuresMarkNoUser(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{
		"500":                 oauthtest.Responses(500, `{"error":"oops"}`),
		"502 with HTML":       oauthtest.Responses(502, html),
		"HTML with 200":       oauthtest.Responses(200, html),
		"truncated":           oauthtest.Responses(200, `{"oauth":{"access_token":"acc`),
		"no oauth wrapper":    oauthtest.Responses(200, `{"access_token":"bare"}`),
		"no access token":     oauthtest.Responses(200, `{"oauth":{"refresh_token":"r"}}`),
		"unusable token":      oauthtest.Responses(200, `{"oauth":{"access_token":"a\nb"}}`),
		"404 of a proxy":      oauthtest.Responses(404, html),
		"redirect":            oauthtest.Responses(302, ``),
		"429":                 oauthtest.Responses(429, `{"error":"slow down"}`),
		"403 of a firewall":   oauthtest.Responses(403, html),
		"422 with a list":     oauthtest.Responses(422, `{"error":["no"]}`),
		"connection reset":    oauthtest.Drops,
		"response lost":       oauthtest.Loses,
		"unknown code at 400": oauthtest.Responses(400, `{"error":"something_new"}`),
	}, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateOnFirstUse, time.Minute)
		w.platform.Inject(oauthtest.Times(2, f)...)
		w.requireToken(t, "access-0")
		require.NoError(t, w.conns.Close(t.Context()))
		assert.NotEmpty(t, w.platform.Sent())
		w.requireToken(t, "access-0") // still valid, so still used
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)

		time.Sleep(2 * time.Minute) // after its expiry
		w.platform.Replace(oauthtest.Times(2, f)...)
		_, err := w.source.Token(t.Context())
		var response *api.Error
		require.ErrorAs(t, err, &response)
		require.NotErrorIs(t, err, api.ErrReauthorize)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)

		w.platform.Replace()
		time.Sleep(time.Minute)
		_, err = w.source.Token(t.Context())
		require.NoError(t, err)
	})
}

// A replica in a pause after a failed refresh uses the token that another replica has
// refreshed meanwhile.
func TestBackoffFindsStoredToken(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, time.Hour, func(t *testing.T, w *fixture) {
		w.requireToken(t, "access-0")
		time.Sleep(2 * time.Hour)
		w.platform.Inject(oauthtest.RetryAfter("300"))
		for range 3 {
			w.requireFailure(t, api.ErrRateLimited)
		}
		w.saveAccess(t, "access-peer", time.Hour)
		w.store.Slow = time.Second
		loads := w.store.Count("Load")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { w.requireToken(t, "access-peer") })
		}
		all.Wait()
		assert.Equal(t, loads+1, w.store.Count("Load"), "callers share one read")
		token, err := w.source.Refresh(t.Context(), oauthtest.FirstToken(0).Access())
		require.NoError(t, err)
		assert.Equal(t, "access-peer", token.Secret.Reveal())
	})
}

// A forced refresh in the pause finds it too.
func TestForcedRefreshInBackoffFindsToken(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.RetryAfter("300"))
		_, err := w.source.Refresh(t.Context(), oauthtest.FirstToken(0).Access())
		require.ErrorIs(t, err, api.ErrRateLimited)
		w.saveAccess(t, "access-peer", time.Hour)
		token, err := w.source.Refresh(t.Context(), oauthtest.FirstToken(0).Access())
		require.NoError(t, err)
		assert.Equal(t, "access-peer", token.Secret.Reveal())
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestTokenServesUntilLastSecond(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, 5*time.Second, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Times(2, oauthtest.Responses(500, ""))...)
		w.requireToken(t, "access-0")
	})
}

func TestRejectedApplicationMarksNoUser(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.platform.Inject(oauthtest.Times(9, oauthtest.Responses(401, `{"error":"invalid_client","error_description":"no"}`))...)
		_, err := w.source.Token(t.Context())
		var rejection *oauth.ConfigError
		require.ErrorAs(t, err, &rejection)
		require.NotErrorIs(t, err, api.ErrReauthorize)
		assert.Equal(t, oauthtest.USSandbox, rejection.Environment)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
		var response *api.Error
		require.ErrorAs(t, err, &response)

		// No other user is refreshed either.
		other := w.conns.Key("other")
		_, err = w.store.Save(t.Context(), other, oauthtest.FirstToken(-time.Minute))
		require.NoError(t, err)
		_, err = w.conns.TokenSource("other").Token(t.Context())
		require.ErrorAs(t, err, &rejection)
		assert.Len(t, w.platform.Sent(), 1)

		// The alarm is raised once.
		time.Sleep(2 * time.Minute)
		_, err = w.source.Token(t.Context())
		require.ErrorAs(t, err, &rejection)
		require.Len(t, eventsOf[tokens.ConfigErrorDetected](a), 1)
		assert.Equal(t, rejection.Code, eventsOf[tokens.ConfigErrorDetected](a)[0].Err.Code)

		// Refreshes continue after the pause with correct credentials.
		w.platform.Replace()
		time.Sleep(2 * time.Minute)
		w.requireToken(t, "access-1")
		_, err = w.conns.TokenSource("other").Token(t.Context())
		require.NoError(t, err)
	})
}

// Codes that may concern one user's refresh token do not pause the application.
func TestRejectedUserPausesNoOthers(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{
		"invalid_request": oauthtest.Responses(400, `{"error":"invalid_request"}`),
		"invalid_scope":   oauthtest.Responses(400, `{"error":"invalid_scope"}`),
		"bare 401":        oauthtest.Responses(401, `{}`),
	}, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateOnFirstUse, -time.Minute)
		a := w.watched(t)
		w.connect(t, 1, -time.Minute)
		for range 5 { // one refresh token that the platform cannot read
			w.platform.Inject(f)
			_, err := w.source.Token(t.Context())
			var response *api.Error
			require.ErrorAs(t, err, &response)
			require.NotErrorIs(t, err, api.ErrReauthorize)
			time.Sleep(31 * time.Second)
		}
		require.NoError(t, w.ask(t, 0))
		assert.Empty(t, eventsOf[tokens.ConfigErrorDetected](a))
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
	})
}

// The code comes from the URL of a browser, so it can be any text. No response to it pauses
// refreshes.
func TestRejectedCodePausesNoRefreshes(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName("invalid_request", "invalid_client", "unauthorized_client", "redirect_uri_mismatch", "invalid_grant", ""), func(t *testing.T, code string) {
		w := newFixture(t, oauthtest.RotateOnFirstUse, -time.Minute)
		for i := range 3 {
			w.platform.Inject(oauthtest.Responses(401, `{"error":"`+code+`"}`))
			_, err := w.conns.Connect(t.Context(), fmt.Sprintf("visitor-%d", i), api.NewSecret("made-up"))
			require.Error(t, err)
		}
		_, paused := w.conns.Paused()
		assert.False(t, paused)
		w.requireToken(t, "access-1")
	})
}

func TestFailuresDelayRequests(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Times(10_000, oauthtest.Responses(500, ""))...)
		end := time.Now().Add(5 * time.Minute)
		for time.Now().Before(end) {
			w.requireFailure(t, api.ErrServer)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Less(t, len(w.platform.Sent()), 50, "the pauses grow to 30 seconds")
		assert.Greater(t, len(w.platform.Sent()), 15)
	})
}

// Not even a lost response is retried before the end of a Retry-After.
func TestRetryAfterDelaysRefresh(t *testing.T) {
	oauthtest.Each(t, map[string]int{"429": 429, "503": 503}, func(t *testing.T, status int) {
		w := newFixture(t, oauthtest.RotateOnFirstUse, -time.Minute)
		limited := oauthtest.RetryAfter("120")
		w.platform.Inject(oauthtest.Times(9, func(handle func() *http.Response) (*http.Response, error) {
			response, err := limited(handle)
			response.StatusCode = status
			return response, err
		})...)
		_, err := w.source.Token(t.Context())
		require.Error(t, err)
		w.platform.Replace()
		time.Sleep(119 * time.Second)
		_, err = w.source.Token(t.Context())
		require.Error(t, err)
		assert.Len(t, w.platform.Sent(), 1)
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-1")
	})
}

// The platform has refreshed, but its response arrives incomplete or late. The old token is
// retried, and works as long as the platform still knows it.
func TestIncompleteResponsesAreRetried(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{
		"body ends early": oauthtest.Changes(func(response *http.Response) {
			body, _ := io.ReadAll(response.Body)
			response.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:40])), iotest.ErrReader(io.ErrUnexpectedEOF)))
		}),
		"body trickles endlessly": oauthtest.Changes(func(response *http.Response) {
			response.Body, response.ContentLength = io.NopCloser(&trickle{every: time.Second, left: 9}), -1
		}),
		"body hangs": oauthtest.Changes(func(response *http.Response) {
			response.Body = io.NopCloser(&trickle{every: 10 * time.Second})
		}),
		"HTML in place of JSON": oauthtest.Changes(func(response *http.Response) { *response = *oauthtest.Respond(200, html) }),
	}, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateOnFirstUse, -time.Minute)
		w.platform.Inject(f)
		began := time.Now()
		w.requireToken(t, "access-2")
		assert.Less(t, time.Since(began), defaults.LeaseTTL)
		assert.Equal(t, "refresh-0", w.platform.Sent()[1]["refresh_token"])
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
	})
}

// A platform that is slow, but responds within its time, causes no retry.
func TestSlowTokenEndpointNeedsNoRetry(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Delay = 9 * time.Second
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.Sent(), 1)
	})
}

// trickle returns one byte at a time and fails after the response time is over, as a
// connection does.
type trickle struct {
	every time.Duration
	left  int
}

func (s *trickle) Read(p []byte) (int, error) {
	time.Sleep(s.every)
	if s.left--; s.left < 0 {
		return 0, errors.New("closed")
	}
	p[0] = ' '
	return 1, nil
}

// The platform's clock differs from the local clock. This does not change the time of a
// refresh.
func TestPlatformClockChangesNoRefresh(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName[time.Duration](-10*time.Minute, 10*time.Minute), func(t *testing.T, skew time.Duration) {
		w := newFixture(t, oauthtest.RotateNever, -time.Minute)
		w.platform.Inject(oauthtest.Changes(func(response *http.Response) {
			theirs := time.Now().Add(skew).UTC()
			*response = *oauthtest.Respond(200, fmt.Sprintf(`{"oauth":{"access_token":"a","refresh_token":"refresh-0","expires_in":7200,"created_at":%q}}`,
				theirs.Format(time.RFC3339)))
			response.Header.Set("Date", theirs.Format(http.TimeFormat))
		}))
		w.requireToken(t, "a")
		assert.WithinDuration(t, time.Now().Add(2*time.Hour), w.record(t).Token.ExpiresAt, 2*time.Second)
		time.Sleep(114 * time.Minute)
		w.requireToken(t, "a")
		time.Sleep(7 * time.Minute)
		w.requireToken(t, "access-2")
	})
}

// Another replica with a wrong clock stored the token. If the token seems valid for longer, it
// is rejected once with 401 and replaced. If it seems expired, it is replaced early. No user
// must authorize again.
func TestReplicaClockMarksNoUser(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName[time.Duration](-10*time.Minute, 10*time.Minute), func(t *testing.T, skew time.Duration) {
		w := newFixture(t, oauthtest.RotateOnFirstUse, time.Hour)
		token := oauthtest.FirstToken(time.Hour)
		token.ExpiresAt = token.ExpiresAt.Add(skew)
		w.save(t, token)
		end := time.Now().Add(time.Hour) // the expiry at the platform
		rejected := 0
		for range 60 {
			access, err := w.source.Token(t.Context())
			require.NoError(t, err)
			if access.Secret == api.NewSecret("access-0") && !time.Now().Before(end) {
				rejected++
				access, err = w.source.Refresh(t.Context(), access)
				require.NoError(t, err)
				assert.NotEqual(t, api.NewSecret("access-0"), access.Secret)
			}
			w.platform.Use(access.Secret)
			time.Sleep(2 * time.Minute)
		}
		assert.LessOrEqual(t, rejected, 1)
		assert.LessOrEqual(t, len(w.platform.Sent()), 2)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
	})
}
