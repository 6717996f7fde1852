package connect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestStateWorksOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		state := b.begin(t, s, "?return_to=/a")
		b.back(s, url.Values{"error": {"access_denied"}, "state": {state}})
		response := b.back(s, code(state))
		assert.Equal(t, http.StatusBadRequest, response.StatusCode)
		assert.Equal(t, connect.OutcomeBadLink, s.result(t).Outcome)
		assert.Empty(t, s.platform.Sent())
	})
}

func TestBackButtonReportsConnected(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		state := b.begin(t, s, "")
		b.back(s, code(state))
		response := b.back(s, code(state))
		assert.Equal(t, http.StatusSeeOther, response.StatusCode)
		assert.Equal(t, connect.OutcomeConnected, s.result(t).Outcome)
		assert.Len(t, s.platform.Sent(), 1, "the code must be sent only once")
	})
}

// Two requests with the same state and cookie cause one exchange.
func TestDoubleClickExchangesCodeOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		s.platform.Delay = time.Second
		state := b.begin(t, s, "?return_to=/a")
		twin := &browser{cookies: maps.Clone(b.cookies)}
		var wg sync.WaitGroup
		for _, b := range []*browser{b, twin} {
			wg.Go(func() { assert.Equal(t, "/a", b.back(s, code(state)).Header.Get("Location")) })
		}
		wg.Wait()
		assert.Len(t, s.platform.Sent(), 1)
		assert.Len(t, s.events, 1)
		assert.ElementsMatch(t, []connect.Outcome{connect.OutcomeConnected, connect.OutcomeConnected},
			[]connect.Outcome{s.results[0].Outcome, s.results[1].Outcome})
	})
}

// A connected user starts another flow, and a call refreshes the token at the same time. The
// refresh must not count as the result of the flow.
func TestRefreshDoesNotCountAsConnecting(t *testing.T) {
	type test struct {
		prepare func(*fixture, *browser)
		want    connect.Outcome
	}
	oauthtest.Each(t, map[string]test{
		"code rejected": {
			func(s *fixture, _ *browser) { s.platform.Inject(oauthtest.Responses(400, `{"error":"invalid_grant"}`)) }, connect.OutcomeBadLink,
		},
		"cookie missing": {func(_ *fixture, b *browser) { clear(b.cookies) }, connect.OutcomeBadLink},
	}, func(t *testing.T, test test) {
		s, b := newFixture(t), newBrowser()
		s.platform.Rotation = oauthtest.RotateOnFirstUse
		b.back(s, code(b.begin(t, s, "")))
		assert.Equal(t, connect.OutcomeConnected, s.result(t).Outcome)
		time.Sleep(3 * time.Hour)
		state := b.begin(t, s, "")
		time.Sleep(time.Minute)
		_, err := s.conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
		require.Len(t, s.platform.Sent(), 2, "the token must have been refreshed")
		test.prepare(s, b)
		b.back(s, code(state))
		assert.Equal(t, test.want, s.results[len(s.results)-1].Outcome)
	})
}

// A browser that disconnects during the exchange must not waste the code.
func TestExchangeSurvivesDisconnect(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		s.platform.Delay = time.Second
		state := b.begin(t, s, "")
		r := httptest.NewRequest(http.MethodGet, "https://ehr.example/dispensary/callback?"+code(state).Encode(), nil)
		for _, c := range b.cookies {
			r.AddCookie(c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		s.handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		_, err := s.store.Store.Load(t.Context(), s.conns.Key(user))
		require.NoError(t, err)
		response := b.back(s, code(state)) // the browser still has the cookie, but the code is used
		assert.Equal(t, http.StatusSeeOther, response.StatusCode)
	})
}

func TestTabsKeepSeparateFlows(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		first := b.begin(t, s, "?return_to=/first")
		second := b.begin(t, s, "?return_to=/second")
		assert.Equal(t, "/first", b.back(s, code(first)).Header.Get("Location"))
		assert.Equal(t, "/second", b.back(s, code(second)).Header.Get("Location"))
		for range 20 {
			b.begin(t, s, "")
		}
		assert.LessOrEqual(t, len(b.cookies), 4)
	})
}

func TestStateKeysRotate(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		b, s := newBrowser(), newFixture(t)
		keys := func(keys ...api.Secret) *fixture {
			return newFixture(t, func(c *settings) { c.Handler.StateKeys = keys })
		}
		state := b.begin(t, s, "")
		rotated := keys(api.NewSecret(secondKey), api.NewSecret(firstKey))
		assert.Equal(t, http.StatusSeeOther, b.back(rotated, code(state)).StatusCode)
		state = b.begin(t, rotated, "")
		later := keys(api.NewSecret(secondKey))
		assert.Equal(t, http.StatusSeeOther, b.back(later, code(state)).StatusCode)
		state = b.begin(t, later, "")
		assert.Equal(t, http.StatusBadRequest, b.back(s, code(state)).StatusCode)
		assert.Equal(t, connect.OutcomeBadLink, s.result(t).Outcome)
	})
}

// A state is valid only for its environment and application.
func TestStateOfOtherApplicationIsRejected(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		for _, change := range []func(*settings){
			func(c *settings) { c.App.Site.Environment = oauthtest.CASandbox },
			func(c *settings) { c.App.ClientID = "client-2" },
		} {
			s, other, b := newFixture(t), newFixture(t, change), newBrowser()
			assert.Equal(t, http.StatusBadRequest, b.back(other, code(b.begin(t, s, ""))).StatusCode)
			assert.Equal(t, connect.OutcomeBadLink, other.result(t).Outcome)
		}
	})
}

// replica returns a second replica with the store and the platform of s.
func (s *fixture) replica(t *testing.T, changes ...func(*settings)) *fixture {
	t.Helper()
	shared := func(c *settings) { c.App.Transport, c.Tokens.Store = s.platform, s.store }
	other := newFixture(t, append([]func(*settings){shared}, changes...)...)
	other.platform, other.store = s.platform, s.store
	return other
}

// doubleClick sends the callback to two replicas, to the second one 10 ms later, and returns
// both responses.
func (b *browser) doubleClick(s, other *fixture, query url.Values) (first, second *http.Response) {
	twin := &browser{cookies: maps.Clone(b.cookies)}
	var wg sync.WaitGroup
	wg.Go(func() { first = b.back(s, query) })
	wg.Go(func() {
		time.Sleep(10 * time.Millisecond)
		second = twin.back(other, query)
	})
	wg.Wait()
	return first, second
}

func exchanges(s *fixture) (n int) {
	for _, route := range s.platform.Routes() {
		if route == "/api/oauth/token" {
			n++
		}
	}
	return n
}

func TestDoubleClickConnectsAcrossReplicas(t *testing.T) {
	slow := func(c *settings) {
		c.Tokens.Clinic = func(context.Context, tokenstore.Key, api.AccessToken) (oauth.Clinic, error) {
			time.Sleep(5 * time.Second)
			return oauth.Clinic{ID: "clinic-1"}, nil
		}
	}
	oauthtest.Bubble(t, func(t *testing.T) {
		s, b := newFixture(t, slow), newBrowser()
		other := s.replica(t, slow)
		s.platform.Delay = time.Second
		first, second := b.doubleClick(s, other, code(b.begin(t, s, "?return_to=/a")))
		assert.Equal(t, "/a", first.Header.Get("Location"))
		assert.Equal(t, "/a", second.Header.Get("Location"))
		assert.Equal(t, connect.OutcomeConnected, s.result(t).Outcome)
		assert.Equal(t, connect.OutcomeConnected, other.result(t).Outcome)
		assert.Equal(t, 1, exchanges(s))
		assert.Empty(t, other.events)
	})
}

// A delayed request must not use the code again.
func TestLateRequestDoesNotReuseCode(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		other := s.replica(t)
		state := b.begin(t, s, "?return_to=/a")
		for i, outcome := range []connect.Outcome{connect.OutcomeConnected, connect.OutcomeBadLink} {
			twin := &browser{cookies: maps.Clone(b.cookies)}
			if i == 0 {
				b.back(s, code(state))
				b.cookies = maps.Clone(twin.cookies)
			} else {
				require.NoError(t, s.conns.Disconnect(t.Context(), user))
			}
			twin.back(other, code(state))
			assert.Equal(t, outcome, other.result(t).Outcome)
			assert.Equal(t, 1, exchanges(s))
		}
	})
}

func TestDoubleClickSharesFailureAcrossReplicas(t *testing.T) {
	type test struct {
		fault   oauthtest.Fault
		verify  error
		outcome connect.Outcome
	}
	oauthtest.Each(t, map[string]test{
		"code rejected":        {fault: oauthtest.Responses(400, `{"error":"invalid_grant"}`), outcome: connect.OutcomeBadLink},
		"application rejected": {fault: oauthtest.Responses(401, `{"error":"invalid_client"}`), outcome: connect.OutcomeMisconfigured},
		"exchange failed":      {fault: oauthtest.Loses, outcome: connect.OutcomePlatformFailed},
		"account rejected":     {verify: errors.New("another clinic"), outcome: connect.OutcomeOwnerRejected},
		"account unchecked":    {verify: fmt.Errorf("%w: %w", tokens.ErrUndecided, api.ErrNotSent), outcome: connect.OutcomePlatformFailed},
		"Verify was not sent":  {verify: api.ErrNotSent, outcome: connect.OutcomeOwnerRejected},
	}, func(t *testing.T, test test) {
		verify := func(c *settings) {
			c.Tokens.Verify = func(context.Context, tokens.Authorization) error { return test.verify }
		}
		s, b := newFixture(t, verify), newBrowser()
		other := s.replica(t, verify)
		s.platform.Delay = time.Second
		if test.fault != nil {
			s.platform.Inject(test.fault)
		}
		first, second := b.doubleClick(s, other, code(b.begin(t, s, "")))
		assert.Equal(t, first.StatusCode, second.StatusCode)
		reference := regexp.MustCompile(`.*quote the reference.*\n`) // only the first response has it
		assert.Equal(t, reference.ReplaceAllString(oauthtest.ReadBody(t, first), ""), oauthtest.ReadBody(t, second))
		assert.Equal(t, test.outcome, s.result(t).Outcome)
		assert.Equal(t, test.outcome, other.result(t).Outcome)
		require.ErrorIs(t, other.result(t).Err, connect.ErrDuplicate)
		assert.Equal(t, 1, exchanges(s))
	})
}

// The code is unused if the request was never sent.
func TestSecondReplicaUsesUnsentCode(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		other := s.replica(t)
		s.platform.Delay = time.Second
		s.platform.Inject(oauthtest.Times(4, func(func() *http.Response) (*http.Response, error) { // one attempt and three retries
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		})...)
		_, second := b.doubleClick(s, other, code(b.begin(t, s, "?return_to=/a")))
		assert.Equal(t, connect.OutcomePlatformFailed, s.result(t).Outcome)
		assert.Equal(t, connect.OutcomeConnected, other.result(t).Outcome)
		assert.Equal(t, "/a", second.Header.Get("Location"))
	})
}

// If a replica crashes with the code, the other replica waits for a limited time and does not
// use the code again.
func TestReplicaCrashEndsWait(t *testing.T) {
	oauthtest.Each(t, map[string]struct{ ttl, wait time.Duration }{
		"default LeaseTTL": {0, defaults.LeaseTTL}, "long LeaseTTL": {10 * time.Minute, 90 * time.Second},
	}, func(t *testing.T, test struct{ ttl, wait time.Duration }) {
		lease := func(c *settings) { c.Tokens.LeaseTTL = test.ttl }
		dies := func(c *settings) {
			c.Tokens.Verify = func(context.Context, tokens.Authorization) error {
				runtime.Goexit()
				return nil
			}
		}
		s, b := newFixture(t, lease, dies), newBrowser()
		other := s.replica(t, lease)
		began := time.Now()
		_, second := b.doubleClick(s, other, code(b.begin(t, s, "")))
		assert.Equal(t, http.StatusServiceUnavailable, second.StatusCode)
		assert.Contains(t, oauthtest.ReadBody(t, second), "we do not know whether")
		assert.Equal(t, connect.OutcomeUnavailable, other.result(t).Outcome)
		assert.InDelta(t, test.wait, time.Since(began), float64(3*time.Second))
		assert.Equal(t, 1, exchanges(s))
	})
}

// The replica stores the token and crashes before it stores the result of the flow.
func TestReplicaCrashKeepsStoredToken(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		other := s.replica(t)
		s.platform.Delay = time.Second
		s.store.Break("EndFlow", errors.New("away"))
		_, second := b.doubleClick(s, other, code(b.begin(t, s, "?return_to=/a")))
		assert.Equal(t, "/a", second.Header.Get("Location"))
		assert.Equal(t, connect.OutcomeConnected, other.result(t).Outcome)
		assert.Equal(t, 1, exchanges(s))
	})
}

func TestFailedClaimPreventsExchange(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		s.store.Break("ClaimFlow", errors.New("away"))
		response := b.back(s, code(b.begin(t, s, "")))
		assert.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
		assert.Equal(t, connect.OutcomeUnavailable, s.result(t).Outcome)
		assert.Zero(t, exchanges(s))
	})
}
