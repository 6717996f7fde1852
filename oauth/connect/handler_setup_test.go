package connect_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestHandlerServesTwoPaths(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		s := newFixture(t)
		mux := http.NewServeMux()
		mux.Handle("/dispensary/", s.handler)
		mux.Handle("/stripped/", http.StripPrefix("/stripped", s.handler))
		for _, test := range []struct {
			method, path string
			status       int
		}{
			{"GET", "/dispensary/connect", 303},
			{"GET", "/stripped/connect", 303},
			{"GET", "/dispensary/callback", 400},
			{"GET", "/dispensary/", 404},
			{"GET", "/dispensary/other", 404},
			{"GET", "/dispensary/connect/", 404},
			{"HEAD", "/dispensary/callback", 405},
			{"POST", "/dispensary/connect", 405},
			{"PUT", "/dispensary/callback", 405},
			{"OPTIONS", "/dispensary/callback", 405},
		} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest(test.method, "https://ehr.example"+test.path, nil))
			assert.Equal(t, test.status, w.Code, "%s %s", test.method, test.path)
			if test.status == 405 {
				assert.Equal(t, "GET", w.Header().Get("Allow"))
			}
		}
	})
}

func TestDefaultPageEscapesReturnTo(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		s, b := newFixture(t, func(c *settings) { c.Handler.Done, c.Handler.Name = nil, "Maple EHR" }), newBrowser()
		state := b.begin(t, s, "?return_to="+url.QueryEscape(`/p?a="x'>`))
		s.platform.Inject(oauthtest.Answers(502, html))
		answer := b.back(s, code(state))
		text := oauthtest.ReadBody(t, answer)
		assert.Contains(t, text, `<html lang="en">`)
		assert.Contains(t, text, "<h1>Not connected</h1>")
		assert.Contains(t, text, "<title>Not connected · Maple EHR</title>")
		assert.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-")
		assert.Contains(t, text, "<code>req-1</code>", "the page must show the platform's request ID")
		assert.Contains(t, text, `href="./connect?return_to=%2Fp%3Fa%3D%22x%27%3E"`)
		assert.Contains(t, text, `href="/p?a=%22x%27%3e"`, "quotes must be escaped in attributes")
		assert.NotContains(t, text, "<script")
		assert.NotContains(t, text, "style=")
	})
}

func TestPagesShowNeutralName(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		assert.Contains(t, oauthtest.ReadBody(t, b.back(s, url.Values{"state": {"nonsense"}})), "<title>This link does not work · Dispensary connection</title>")
		missing := b.get(s.handler, "https://ehr.example/dispensary/elsewhere")
		assert.Equal(t, http.StatusNotFound, missing.StatusCode)
		assert.Contains(t, oauthtest.ReadBody(t, missing), "<h1>Page not found</h1>")
	})
}

func TestLoopbackCookiesOmitSecure(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		s := newFixture(t, func(c *settings) {
			c.App.RedirectURL, c.Handler.LoopbackCookies = "http://127.0.0.1:8080/dispensary/callback", true
		})
		b := newBrowser()
		answer := b.get(s.handler, "http://127.0.0.1:8080/dispensary/connect")
		c := answer.Cookies()[0]
		assert.False(t, c.Secure)
		assert.True(t, strings.HasPrefix(c.Name, "dispensary-"))
		to, err := answer.Location()
		require.NoError(t, err)
		assert.Equal(t, http.StatusSeeOther, b.back(s, code(to.Query().Get("state"))).StatusCode)
	})
}

func TestNewNamesInvalidField(t *testing.T) {
	t.Parallel()
	conns := newFixture(t).conns
	good := connect.Config{
		Connections: conns, StateKeys: []api.Secret{api.NewSecret(firstKey)},
		User: func(*http.Request) (string, error) { return user, nil },
	}
	_, err := connect.New(good)
	require.NoError(t, err)
	for field, change := range map[string]func(*connect.Config){
		"Connections": func(c *connect.Config) { c.Connections = nil },
		"StateKeys": func(c *connect.Config) {
			c.StateKeys = []api.Secret{api.NewSecret(firstKey), api.NewSecret(oauthtest.Canary)}
		},
		"User":            func(c *connect.Config) { c.User = nil },
		"StartName":       func(c *connect.Config) { c.StartName = "callback" },
		"Home":            func(c *connect.Config) { c.Home = "//evil.example" },
		"LoopbackCookies": func(c *connect.Config) { c.LoopbackCookies = true },
	} {
		c := good
		change(&c)
		_, err := connect.New(c)
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument, field)
		assert.Equal(t, "connect.Config."+field, argument.Field)
		assert.NotContains(t, err.Error(), oauthtest.Canary)
	}
	_, err = connect.New(connect.Config{Connections: conns, User: good.User})
	require.ErrorContains(t, err, "StateKeys is empty")
	client := oauthtest.NewClient(t, nil, func(c *oauth.Config) { c.RedirectURL = "https://ehr.example/" })
	good.Connections, err = tokens.NewConnections(tokens.Config{Client: client, Store: tokenstore.NewMemoryStore()})
	require.NoError(t, err)
	_, err = connect.New(good)
	require.ErrorContains(t, err, "RedirectURL")
}
