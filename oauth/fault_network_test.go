package oauth_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// The answer of the platform, which has done its work, does not arrive whole or
// in time. The old token is tried again and, as long as the platform still
// knows it, nobody notices.
func TestAnswersThatDoNotArrive(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"body breaks off": func(handle func() *http.Response) (*http.Response, error) {
			response := handle()
			body, _ := io.ReadAll(response.Body)
			response.Body = io.NopCloser(io.MultiReader(strings.NewReader(string(body[:40])), broken{io.ErrUnexpectedEOF}))
			return response, nil
		},
		"body trickles without end": func(handle func() *http.Response) (*http.Response, error) {
			response := handle()
			response.Body = io.NopCloser(&trickle{left: 9})
			response.ContentLength = -1
			return response, nil
		},
		"body hangs": func(handle func() *http.Response) (*http.Response, error) {
			response := handle()
			response.Body = io.NopCloser(&trickle{every: 10 * time.Second})
			return response, nil
		},
		"500 after the work": func(handle func() *http.Response) (*http.Response, error) {
			handle()
			return respond(500, html), nil
		},
		"HTML in place of the answer": func(handle func() *http.Response) (*http.Response, error) {
			handle()
			return respond(200, html), nil
		},
		"connection reset": loses,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, grace, -time.Minute)
				w.platform.inject(f)
				began := time.Now()
				w.requireToken(t, "access-2")
				assert.Less(t, time.Since(began), oauth.DefaultLeaseTTL)
				assert.Equal(t, "refresh-0", w.platform.sent()[1]["refresh_token"])
				assert.Equal(t, oauth.StateActive, w.record(t).State)
			})
		})
	}
}

// A platform that is slow, but within what it is given, is waited for.
func TestSlowTokenEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.delay = 9 * time.Second
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.sent(), 1)
	})
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// trickle gives a byte now and then, and fails when the time for the answer is
// over, as a connection does.
type trickle struct {
	every time.Duration // 0 is a second
	left  int
}

func (s *trickle) Read(p []byte) (int, error) {
	wait := s.every
	if wait == 0 {
		wait = time.Second
	}
	time.Sleep(wait)
	if s.left--; s.left < 0 {
		return 0, errors.New("closed")
	}
	p[0] = ' '
	return 1, nil
}

// The platform's clock is another one than this machine's: it makes no
// difference to when a token is replaced.
func TestPlatformClockTenMinutesOff(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, none, -time.Minute)
				w.platform.inject(func(handle func() *http.Response) (*http.Response, error) {
					handle()
					theirs := time.Now().Add(skew).UTC()
					response := respond(200, fmt.Sprintf(`{"oauth":{"access_token":"a","refresh_token":"refresh-0","expires_in":7200,"created_at":%q}}`,
						theirs.Format(time.RFC3339)))
					response.Header.Set("Date", theirs.Format(http.TimeFormat))
					return response, nil
				})
				w.requireToken(t, "a")
				assert.WithinDuration(t, time.Now().Add(2*time.Hour), w.record(t).Token.ExpiresAt, 2*time.Second)
				time.Sleep(114 * time.Minute)
				w.requireToken(t, "a")
				time.Sleep(7 * time.Minute)
				w.requireToken(t, "access-2")
			})
		})
	}
}

// Another machine, whose clock is off, stored the token. A token that seems to
// live on is refused once with 401 and replaced; one that seems to have ended is
// replaced early. Nobody has to authorize again.
func TestReplicaClockTenMinutesOff(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, grace, time.Hour)
				token := firstToken(time.Hour)
				token.ExpiresAt = token.ExpiresAt.Add(skew)
				w.save(t, token)
				end := time.Now().Add(time.Hour) // what the platform goes by
				refused := 0
				for range 60 {
					access, err := w.source.Token(t.Context())
					require.NoError(t, err)
					if access.Secret == "access-0" && !time.Now().Before(end) {
						refused++
						access, err = w.source.Refresh(t.Context(), access)
						require.NoError(t, err)
						assert.NotEqual(t, api.Secret("access-0"), access.Secret)
					}
					w.platform.use(access.Secret)
					time.Sleep(2 * time.Minute)
				}
				assert.LessOrEqual(t, refused, 1)
				assert.LessOrEqual(t, len(w.platform.sent()), 2)
				assert.Equal(t, oauth.StateActive, w.record(t).State)
			})
		})
	}
}
