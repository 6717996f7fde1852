package connect_test

import (
	"context"
	"errors"
	"fmt"
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
		s.platform.Inject(oauthtest.Responses(502, html))
		response := b.back(s, code(state))
		text := oauthtest.ReadBody(t, response)
		assert.Contains(t, text, `<html lang="en">`)
		assert.Contains(t, text, "<h1>Not connected</h1>")
		assert.Contains(t, text, "<title>Not connected · Maple EHR</title>")
		assert.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-")
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
		response := b.get(s.handler, "http://127.0.0.1:8080/dispensary/connect")
		c := response.Cookies()[0]
		assert.False(t, c.Secure)
		assert.True(t, strings.HasPrefix(c.Name, "dispensary-"))
		to, err := response.Location()
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

// Successful and failed flows show neither the code, the state, a token nor a key in a page, a
// log, an event or a result.
func TestFlowShowsNoSecret(t *testing.T) {
	t.Parallel()
	good := oauthtest.Responses(200, `{"oauth":{"access_token":"`+oauthtest.Canary+`-a","refresh_token":"`+oauthtest.Canary+`-r","resource_owner":{"id":"prac-1","type":"Practitioner"}}}`)
	echo := `{"error":"%s","error_description":"` + oauthtest.Canary + `"}`
	for name, f := range map[string]oauthtest.Fault{
		"connected":      good,
		"code rejected":  oauthtest.Responses(400, fmt.Sprintf(echo, "invalid_grant")),
		"app rejected":   oauthtest.Responses(401, fmt.Sprintf(echo, "invalid_client")),
		"server error":   oauthtest.Responses(500, oauthtest.Canary),
		"truncated":      oauthtest.Responses(200, `{"oauth":{"access_token":"`+oauthtest.Canary),
		"network":        func(func() *http.Response) (*http.Response, error) { return nil, errors.New(oauthtest.Canary) },
		"unknown status": oauthtest.Responses(418, oauthtest.Canary),
	} {
		for _, broken := range []string{"", "Save", "Load"} {
			t.Run(name+" "+broken, func(t *testing.T) {
				oauthtest.Bubble(t, func(t *testing.T) {
					s := newFixture(t, func(c *settings) {
						c.App.ClientSecret = api.NewSecret(oauthtest.Canary + "-secret")
						c.Handler.StateKeys = []api.Secret{api.NewSecret(oauthtest.Canary + "-0123456789abcdef0123456789abcdef")}
						c.Tokens.Verify = func(_ context.Context, grant tokens.Authorization) error {
							oauthtest.RequireClean(t, "Authorization", grant)
							return nil
						}
					})
					if broken != "" {
						s.store.Break(broken, errors.New("away"))
					}
					s.platform.Inject(f)
					b := newBrowser()
					state := b.begin(t, s, "")
					var cookie string
					for _, c := range b.cookies {
						cookie = c.Value
					}
					response := b.back(s, url.Values{"code": {oauthtest.Canary + "-code"}, "state": {state}})
					again := b.back(s, url.Values{"code": {oauthtest.Canary + "-code"}, "state": {state}})
					shown := oauthtest.ReadBody(t, response) + oauthtest.ReadBody(t, again) + fmt.Sprint(response.Header, again.Header) + s.logs.String()
					for _, secret := range []string{oauthtest.Canary, state, cookie} {
						assert.NotContains(t, shown, secret)
					}
					for _, result := range s.results {
						oauthtest.RequireClean(t, "Result", result)
						for e := result.Err; e != nil; e = errors.Unwrap(e) {
							oauthtest.RequireClean(t, fmt.Sprintf("%T", e), e)
						}
						assert.NotContains(t, fmt.Sprintf("%+v", result), state)
					}
					for _, event := range s.events {
						oauthtest.RequireClean(t, fmt.Sprintf("%T", event), event)
					}
					oauthtest.RequireClean(t, "Handler", s.handler)
				})
			})
		}
	}
}
