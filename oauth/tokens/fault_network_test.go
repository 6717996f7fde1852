package tokens_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
		refused := 0
		for range 60 {
			access, err := w.source.Token(t.Context())
			require.NoError(t, err)
			if access.Secret == api.NewSecret("access-0") && !time.Now().Before(end) {
				refused++
				access, err = w.source.Refresh(t.Context(), access)
				require.NoError(t, err)
				assert.NotEqual(t, api.NewSecret("access-0"), access.Secret)
			}
			w.platform.Use(access.Secret)
			time.Sleep(2 * time.Minute)
		}
		assert.LessOrEqual(t, refused, 1)
		assert.LessOrEqual(t, len(w.platform.Sent()), 2)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
	})
}
