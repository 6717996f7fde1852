package connect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

const (
	user = oauthtest.User
	html = "<html><body>502 Bad Gateway</body></html>"

	firstKey  = "0123456789abcdef0123456789abcdef"
	secondKey = "fedcba9876543210fedcba9876543210"
)

// fixture is an application with the handler mounted in it.
type fixture struct {
	platform *oauthtest.Platform
	conns    *tokens.Connections
	store    *oauthtest.FlakyStore
	logs     *logtest.Buffer
	handler  http.Handler

	mu      sync.Mutex
	user    string // the signed-in user
	lookup  error  // error of the session lookup
	results []connect.Result
	events  []tokens.Authorization
}

// settings configure the client, the connections and the handler.
type settings struct {
	App     oauth.Config
	Tokens  tokens.Config
	Handler connect.Config
}

func newFixture(t testing.TB, changes ...func(*settings)) *fixture {
	t.Helper()
	s := &fixture{platform: oauthtest.NewPlatform(oauthtest.RotateNever), store: oauthtest.NewFlakyStore(), logs: &logtest.Buffer{}, user: user}
	c := settings{App: oauthtest.Config(s.platform)}
	c.App.RedirectURL = "https://ehr.example/dispensary/callback"
	c.App.Logger = logtest.NewLogger(s.logs)
	c.Tokens = tokens.Config{Store: s.store, Observers: []tokens.Observer{{
		Connected: func(_ context.Context, e tokens.Authorization) { s.keep(func() { s.events = append(s.events, e) }) },
	}}}
	c.Handler = connect.Config{
		StateKeys: []api.Secret{api.NewSecret(firstKey)}, User: s.signedIn,
		Done: func(w http.ResponseWriter, _ *http.Request, result *connect.Result) {
			s.keep(func() { s.results = append(s.results, *result) })
			connect.DefaultPage(w, result)
		},
	}
	for _, change := range changes {
		change(&c)
	}
	var err error
	c.Tokens.Client, err = oauth.New(c.App)
	require.NoError(t, err)
	s.conns, err = tokens.NewConnections(c.Tokens)
	require.NoError(t, err)
	c.Handler.Connections = s.conns
	s.handler, err = connect.New(c.Handler)
	require.NoError(t, err)
	return s
}

// withFixture runs a test in a bubble with an application and the browser of its user.
func withFixture(t *testing.T, test func(t *testing.T, s *fixture, b *browser)) {
	t.Helper()
	oauthtest.Bubble(t, func(t *testing.T) { test(t, newFixture(t), newBrowser()) })
}

func (s *fixture) keep(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *fixture) signedIn(r *http.Request) (string, error) {
	if r.URL.RawQuery != "" || strings.Contains(r.RequestURI, "?") {
		panic("the request of the hook contains a query")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lookup != nil:
		return "", fmt.Errorf("%w: %w", connect.ErrUserLookup, s.lookup)
	case s.user == "":
		return "", errors.New("no session")
	}
	return s.user, nil
}

func (s *fixture) result(t *testing.T) connect.Result {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.results)
	return s.results[len(s.results)-1]
}

// browser stores the cookies of a site and deletes expired ones.
type browser struct {
	cookies map[string]*http.Cookie
}

func newBrowser() *browser { return &browser{cookies: map[string]*http.Cookie{}} }

func (b *browser) get(h http.Handler, address string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	for _, cookie := range b.cookies {
		r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	response := w.Result()
	for _, cookie := range response.Cookies() {
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		} else {
			b.cookies[cookie.Name] = cookie
		}
	}
	return response
}

// begin starts the flow and returns the state that the platform receives.
func (b *browser) begin(t testing.TB, s *fixture, query string) string {
	t.Helper()
	response := b.get(s.handler, "https://ehr.example/dispensary/connect"+query)
	require.Equal(t, http.StatusSeeOther, response.StatusCode)
	to, err := response.Location()
	require.NoError(t, err)
	require.Equal(t, "login.platform.example", to.Host)
	return to.Query().Get("state")
}

// back sends the callback of the platform.
func (b *browser) back(s *fixture, query url.Values) *http.Response {
	return b.get(s.handler, "https://ehr.example/dispensary/callback?"+query.Encode())
}

func code(state string) url.Values { return url.Values{"code": {"code-1"}, "state": {state}} }

func TestHandlerConnects(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		state := b.begin(t, s, "?return_to="+url.QueryEscape("/patients/7?tab=plans"))
		assert.Len(t, state, 76)
		response := b.back(s, code(state))
		assert.Equal(t, http.StatusSeeOther, response.StatusCode)
		assert.Equal(t, "/patients/7?tab=plans", response.Header.Get("Location"))
		assert.Empty(t, b.cookies, "the callback must delete the cookie")

		result := s.result(t)
		assert.Equal(t, connect.OutcomeConnected, result.Outcome)
		assert.Equal(t, s.conns.Key(user), result.Key)
		require.NoError(t, result.Err)
		record, err := s.store.Store.Load(t.Context(), s.conns.Key(user))
		require.NoError(t, err)
		assert.Equal(t, result.Record, record)
		assert.Equal(t, "code-1", s.platform.Sent()[0]["code"])
		assert.Equal(t, []tokens.Authorization{{
			Key: s.conns.Key(user), Owner: oauth.ResourceOwner{ID: "prac-1", Type: oauth.ResourceOwnerPractitioner},
			Scopes: []string{"catalog:read", "clinic:read"},
		}}, s.events)
	})
}

func TestHandlerSetsHeadersAndCookie(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		start := b.get(s.handler, "https://ehr.example/dispensary/connect")
		page := b.back(s, url.Values{"state": {"nonsense"}})
		for _, response := range []*http.Response{start, page} {
			assert.Equal(t, "no-store", response.Header.Get("Cache-Control"))
			assert.Equal(t, "no-referrer", response.Header.Get("Referrer-Policy"))
			assert.Equal(t, "nosniff", response.Header.Get("X-Content-Type-Options"))
			assert.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'none'")
			assert.Contains(t, response.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
		}
		cookies := start.Cookies()
		require.Len(t, cookies, 1)
		c := cookies[0]
		assert.True(t, strings.HasPrefix(c.Name, "__Host-dispensary-"))
		assert.True(t, c.Secure && c.HttpOnly && c.Path == "/" && c.Domain == "" && c.SameSite == http.SameSiteLaxMode)
		assert.Equal(t, 1800, c.MaxAge)
		assert.NotContains(t, c.Value, user)
	})
}

func TestHandlerReportsOutcomes(t *testing.T) {
	type test struct {
		query   func(state string) url.Values
		prepare func(*fixture, *browser)
		outcome connect.Outcome
		status  int
		err     error
		text    string // text of the error
		asked   int    // calls of the token endpoint
	}
	oauthtest.Each(t, map[string]test{
		"canceled": {
			query:   func(state string) url.Values { return url.Values{"error": {"access_denied"}, "state": {state}} },
			outcome: connect.OutcomeCanceled, status: 200, err: oauth.ErrCanceled,
		},
		"canceled without state": {
			query:   func(string) url.Values { return url.Values{"error": {"access_denied"}} },
			outcome: connect.OutcomeCanceled, status: 200, err: oauth.ErrCanceled,
		},
		"error of the page": {
			query:   func(state string) url.Values { return url.Values{"error": {"server_error"}, "state": {state}} },
			outcome: connect.OutcomePlatformFailed, status: 502, text: "oauth: the authorization page reported an error: server_error",
		},
		"no code": {
			query:   func(state string) url.Values { return url.Values{"state": {state}} },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrNoCode,
		},
		"no state": {
			query:   func(string) url.Values { return url.Values{"code": {"code-1"}} },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"state cut off": {
			query:   func(state string) url.Values { return code(state[:60]) },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"state changed": {
			query:   func(state string) url.Values { return code(state[:40] + flip(state[40]) + state[41:]) },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"two states": {
			query:   func(state string) url.Values { return url.Values{"code": {"c"}, "state": {state, state}} },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"expired state": {
			query: code, prepare: func(*fixture, *browser) { time.Sleep(30*time.Minute + 2*time.Second) },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"other browser": {
			query: code, prepare: func(_ *fixture, b *browser) { clear(b.cookies) },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"forged cookie": {
			query: code, prepare: func(_ *fixture, b *browser) {
				for _, c := range b.cookies {
					c.Value = flip(c.Value[0]) + c.Value[1:]
				}
			},
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"other user": {
			query: code, prepare: func(s *fixture, _ *browser) { s.user = "user-18" },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrState,
		},
		"signed out": {
			query: code, prepare: func(s *fixture, _ *browser) { s.user = "" },
			outcome: connect.OutcomeNotSignedIn, status: 401,
		},
		"session lookup failed": {
			query: code, prepare: func(s *fixture, _ *browser) { s.lookup = errors.New("connection refused") },
			outcome: connect.OutcomeUnavailable, status: 503, err: connect.ErrUserLookup,
		},
		"unusable user": {
			query: code, prepare: func(s *fixture, _ *browser) { s.user = " x" },
			outcome: connect.OutcomeNotSignedIn, status: 401, err: api.ErrArgument,
		},
		"expired code": {
			query: code, prepare: func(s *fixture, _ *browser) { s.platform.Inject(oauthtest.Responses(400, `{"error":"invalid_grant"}`)) },
			outcome: connect.OutcomeBadLink, status: 400, err: oauth.ErrCodeRejected, asked: 1,
		},
		"exchange failed": {
			query: code, prepare: func(s *fixture, _ *browser) { s.platform.Inject(oauthtest.Responses(502, html)) },
			outcome: connect.OutcomePlatformFailed, status: 502, err: api.ErrServer, asked: 1,
		},
		"response of the exchange lost": {
			query: code, prepare: func(s *fixture, _ *browser) { s.platform.Inject(oauthtest.Loses) },
			outcome: connect.OutcomePlatformFailed, status: 502, err: api.ErrMaybeApplied, asked: 1,
		},
		"application rejected": {
			query: code, prepare: func(s *fixture, _ *browser) {
				s.platform.Inject(oauthtest.Responses(401, `{"error":"invalid_client"}`))
			},
			outcome: connect.OutcomeMisconfigured, status: 500, asked: 1,
		},
		"store failed": {
			query: code, prepare: func(s *fixture, _ *browser) { s.store.Break("Save", errors.New("away")) },
			outcome: connect.OutcomeUnavailable, status: 503, asked: 2, // exchanged and revoked
		},
	}, func(t *testing.T, test test) {
		s, b := newFixture(t), newBrowser()
		state := b.begin(t, s, "")
		if test.prepare != nil {
			test.prepare(s, b)
		}
		response := b.back(s, test.query(state))
		result := s.result(t)
		assert.Equal(t, test.outcome, result.Outcome)
		assert.Equal(t, test.status, response.StatusCode)
		assert.Equal(t, "text/html; charset=utf-8", response.Header.Get("Content-Type"))
		assert.NotEqual(t, connect.OutcomeConnected, result.Outcome)
		require.Error(t, result.Err)
		if test.text != "" {
			require.EqualError(t, result.Err, test.text)
		}
		if test.err != nil {
			require.ErrorIs(t, result.Err, test.err)
		}
		assert.Len(t, s.platform.Sent(), test.asked)
		_, err := s.store.Store.Load(t.Context(), s.conns.Key(user))
		require.ErrorIs(t, err, tokenstore.ErrNoRecord)
		for _, hidden := range []string{state, "code-1"} {
			assert.NotContains(t, s.logs.String(), hidden)
		}
	})
}

// flip returns another character of the alphabet of states.
func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestHandlerRejectsAccount(t *testing.T) {
	stranger := errors.New("not this practitioner")
	oauthtest.Bubble(t, func(t *testing.T) {
		s, b := newFixture(t, func(c *settings) {
			c.Tokens.Verify = func(_ context.Context, grant tokens.Authorization) error {
				if grant.Owner.ID == "prac-1" && grant.Previous.ID == "prac-0" {
					return stranger
				}
				return nil
			}
		}), newBrowser()
		before := oauthtest.FirstToken(time.Hour)
		before.ResourceOwner.ID = "prac-0"
		_, err := s.store.Save(t.Context(), s.conns.Key(user), before)
		require.NoError(t, err)
		response := b.back(s, code(b.begin(t, s, "")))
		assert.Equal(t, http.StatusForbidden, response.StatusCode)
		require.ErrorIs(t, s.result(t).Err, tokens.ErrOwnerRejected)
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, s.platform.Routes())
		assert.Equal(t, "access-1", s.platform.Sent()[1]["token"], "Connect must revoke the new token and keep the old one")
		record, err := s.store.Store.Load(t.Context(), s.conns.Key(user))
		require.NoError(t, err)
		assert.Equal(t, "prac-0", record.Token.ResourceOwner.ID)
	})
}

// If Verify panics, the token is revoked.
func TestPanicInVerifyShowsPage(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		panics := func(context.Context, tokens.Authorization) error { panic(oauthtest.Canary) }
		s, b := newFixture(t, func(c *settings) { c.Tokens.Verify = panics }), newBrowser()
		response := b.back(s, code(b.begin(t, s, "")))
		assert.Equal(t, http.StatusBadGateway, response.StatusCode)
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, s.platform.Routes())
		assert.NotContains(t, s.logs.String(), oauthtest.Canary)
	})
}
