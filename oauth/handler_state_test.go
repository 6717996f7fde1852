package oauth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestStateIsUsedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t), newBrowser()
		state := b.begin(t, s, "?return_to=/a")
		b.back(s, url.Values{"error": {"access_denied"}, "state": {state}})
		answer := b.back(s, code(state))
		assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
		assert.Equal(t, oauth.OutcomeUsedState, s.result(t).Outcome)
		assert.Empty(t, s.platform.sent())
	})
}

func TestBackButtonAfterConnecting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t), newBrowser()
		state := b.begin(t, s, "")
		b.back(s, code(state))
		answer := b.back(s, code(state))
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
		assert.Equal(t, oauth.OutcomeAlreadyConnected, s.result(t).Outcome)
		assert.Len(t, s.platform.sent(), 1, "the code is not sent again")
	})
}

// Two requests with one state and both its halves: one exchange, one result.
func TestDoubleClickOnOneReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t), newBrowser()
		s.platform.delay = time.Second
		state := b.begin(t, s, "?return_to=/a")
		twin := newBrowser()
		for name, c := range b.cookies {
			twin.cookies[name] = c
		}
		var wg sync.WaitGroup
		for _, b := range []*browser{b, twin} {
			wg.Go(func() { assert.Equal(t, "/a", b.back(s, code(state)).Header.Get("Location")) })
		}
		wg.Wait()
		assert.Len(t, s.platform.sent(), 1)
		assert.Len(t, s.events, 1)
		assert.Equal(t, oauth.OutcomeConnected, s.results[0].Outcome)
		assert.Equal(t, oauth.OutcomeConnected, s.results[1].Outcome)
	})
}

// On two replicas the platform decides, and the slower one finds the result.
func TestDoubleClickOnTwoReplicas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t), newBrowser()
		other := newSite(t, func(c *oauth.Config, h *oauth.HandlerConfig) {
			c.HTTPClient, h.Store = &http.Client{Transport: s.platform}, s.store
		})
		state := b.begin(t, s, "?return_to=/a")
		twin := newBrowser()
		for name, c := range b.cookies {
			twin.cookies[name] = c
		}
		b.back(s, code(state))
		s.platform.inject(answers(400, `{"error":"invalid_grant"}`))
		answer := twin.back(other, code(state))
		assert.Equal(t, "/a", answer.Header.Get("Location"))
		assert.Equal(t, oauth.OutcomeAlreadyConnected, other.result(t).Outcome)
	})
}

// A connected user goes through the flow again, and a call of theirs refreshes
// meanwhile: that is not what the flow was to do.
func TestARefreshDoesNotPassForConnecting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(*site, *browser)
		want    oauth.Outcome
	}{
		"the code is refused": {
			func(s *site, _ *browser) { s.platform.inject(answers(400, `{"error":"invalid_grant"}`)) }, oauth.OutcomeCodeRefused,
		},
		"the cookie is gone": {func(_ *site, b *browser) { clear(b.cookies) }, oauth.OutcomeUsedState},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, b := newSite(t), newBrowser()
				s.platform.rotation = grace
				b.back(s, code(b.begin(t, s, "")))
				assert.Equal(t, oauth.OutcomeConnected, s.result(t).Outcome)
				time.Sleep(3 * time.Hour)
				state := b.begin(t, s, "")
				time.Sleep(time.Minute)
				_, err := s.client.TokenSource(s.store, user).Token(t.Context())
				require.NoError(t, err)
				require.Len(t, s.platform.sent(), 2, "it was refreshed")
				test.prepare(s, b)
				b.back(s, code(state))
				assert.Equal(t, test.want, s.results[len(s.results)-1].Outcome)
			})
		})
	}
}

// A browser that leaves in the middle does not waste the code.
func TestBrowserLeavesDuringTheExchange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t), newBrowser()
		s.platform.delay = time.Second
		state := b.begin(t, s, "")
		r := httptest.NewRequest(http.MethodGet, "https://ehr.example/dispensary/callback?"+code(state).Encode(), nil)
		for _, c := range b.cookies {
			r.AddCookie(c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		s.handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		_, err := s.store.Store.Load(t.Context(), s.client.Key(user))
		require.NoError(t, err)
		answer := b.back(s, code(state)) // the browser still has the cookie, the code is spent
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
	})
}

func TestFlowsInTabsDoNotMix(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t), newBrowser()
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
	bubble(t, func(t *testing.T) {
		b, s := newBrowser(), newSite(t)
		keys := func(keys ...api.Secret) *site {
			return newSite(t, func(_ *oauth.Config, h *oauth.HandlerConfig) { h.StateKeys = keys })
		}
		state := b.begin(t, s, "")
		rotated := keys(secondKey, firstKey)
		assert.Equal(t, http.StatusSeeOther, b.back(rotated, code(state)).StatusCode)
		state = b.begin(t, rotated, "")
		later := keys(secondKey)
		assert.Equal(t, http.StatusSeeOther, b.back(later, code(state)).StatusCode)
		state = b.begin(t, later, "")
		assert.Equal(t, http.StatusBadRequest, b.back(s, code(state)).StatusCode)
		assert.Equal(t, oauth.OutcomeWrongState, s.result(t).Outcome)
	})
}

// Each environment and each application has states of its own.
func TestStatesOfOthersAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, change := range []siteChange{
			func(c *oauth.Config, _ *oauth.HandlerConfig) { c.Site.Environment = caSandbox },
			func(c *oauth.Config, _ *oauth.HandlerConfig) { c.ClientID = "client-2" },
		} {
			s, other, b := newSite(t), newSite(t, change), newBrowser()
			assert.Equal(t, http.StatusBadRequest, b.back(other, code(b.begin(t, s, ""))).StatusCode)
			assert.Equal(t, oauth.OutcomeWrongState, other.result(t).Outcome)
		}
	})
}
