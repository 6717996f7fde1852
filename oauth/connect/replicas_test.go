package connect_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
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
		"code rejected":        {fault: oauthtest.Answers(400, `{"error":"invalid_grant"}`), outcome: connect.OutcomeBadLink},
		"application rejected": {fault: oauthtest.Answers(401, `{"error":"invalid_client"}`), outcome: connect.OutcomeMisconfigured},
		"exchange failed":      {fault: oauthtest.Loses, outcome: connect.OutcomePlatformFailed},
		"account rejected":     {verify: errors.New("another clinic"), outcome: connect.OutcomeOwnerRefused},
		"account unchecked":    {verify: fmt.Errorf("%w: %w", tokens.ErrUndecided, api.ErrNotSent), outcome: connect.OutcomePlatformFailed},
		"Verify was not sent":  {verify: api.ErrNotSent, outcome: connect.OutcomeOwnerRefused},
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
		answer := b.back(s, code(b.begin(t, s, "")))
		assert.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		assert.Equal(t, connect.OutcomeUnavailable, s.result(t).Outcome)
		assert.Zero(t, exchanges(s))
	})
}
