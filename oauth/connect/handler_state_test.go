package connect_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

func TestStateWorksOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		state := b.begin(t, s, "?return_to=/a")
		b.back(s, url.Values{"error": {"access_denied"}, "state": {state}})
		answer := b.back(s, code(state))
		assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
		assert.Equal(t, connect.OutcomeBadLink, s.result(t).Outcome)
		assert.Empty(t, s.platform.Sent())
	})
}

func TestBackButtonReportsConnected(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		state := b.begin(t, s, "")
		b.back(s, code(state))
		answer := b.back(s, code(state))
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
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
			func(s *fixture, _ *browser) { s.platform.Inject(oauthtest.Answers(400, `{"error":"invalid_grant"}`)) }, connect.OutcomeBadLink,
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
		answer := b.back(s, code(state)) // the browser still has the cookie, but the code is used
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
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
