package oauth_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestHandlerRoutes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t)
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
			mux.ServeHTTP(w, httptest.NewRequest(test.method, test.path, nil))
			assert.Equal(t, test.status, w.Code, "%s %s", test.method, test.path)
			if test.status == 405 {
				assert.Equal(t, "GET", w.Header().Get("Allow"))
			}
		}
	})
}

func TestDefaultPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, b := newSite(t, func(_ *oauth.Config, h *oauth.HandlerConfig) { h.Done = nil }), newBrowser()
		state := b.begin(t, s, "?return_to="+url.QueryEscape(`/p?a="x'>`))
		s.platform.inject(answers(502, html))
		answer := b.back(s, code(state))
		text := read(t, answer)
		assert.Contains(t, text, `<html lang="en">`)
		assert.Contains(t, text, "<h1>Not connected</h1>")
		assert.Contains(t, text, "<code>req-1</code>", "the platform's request id")
		assert.Contains(t, text, `href="./connect?return_to=%2Fp%3Fa%3D%22x%27%3E"`)
		assert.Contains(t, text, `href="/p?a=%22x%27%3e"`, "a quote ends no attribute")
		assert.NotContains(t, text, "<script")
		assert.NotContains(t, text, "style=")
	})
}

func TestLoopbackCookies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newSite(t, func(c *oauth.Config, h *oauth.HandlerConfig) {
			c.RedirectURL, h.LoopbackCookies = "http://127.0.0.1:8080/dispensary/callback", true
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

func TestNewHandlerNamesTheField(t *testing.T) {
	t.Parallel()
	client := newClient(t, newPlatform(none))
	good := oauth.HandlerConfig{
		Client: client, Store: oauth.NewMemoryStore(), StateKeys: []api.Secret{firstKey},
		User: func(*http.Request) (string, error) { return user, nil },
	}
	_, err := oauth.NewHandler(good)
	require.NoError(t, err)
	for field, change := range map[string]func(*oauth.HandlerConfig){
		"Client":          func(c *oauth.HandlerConfig) { c.Client = nil },
		"Store":           func(c *oauth.HandlerConfig) { c.Store = nil },
		"StateKeys":       func(c *oauth.HandlerConfig) { c.StateKeys = []api.Secret{firstKey, canary} },
		"User":            func(c *oauth.HandlerConfig) { c.User = nil },
		"StartName":       func(c *oauth.HandlerConfig) { c.StartName = "callback" },
		"StateLifetime":   func(c *oauth.HandlerConfig) { c.StateLifetime = time.Second },
		"Home":            func(c *oauth.HandlerConfig) { c.Home = "//evil.example" },
		"ReturnOrigins":   func(c *oauth.HandlerConfig) { c.ReturnOrigins = []string{"http://app.example"} },
		"LoopbackCookies": func(c *oauth.HandlerConfig) { c.LoopbackCookies = true },
	} {
		c := good
		change(&c)
		_, err := oauth.NewHandler(c)
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument, field)
		assert.Equal(t, "oauth.HandlerConfig."+field, argument.Field)
		assert.NotContains(t, err.Error(), canary)
	}
	_, err = oauth.NewHandler(oauth.HandlerConfig{Client: client, Store: oauth.NewMemoryStore(), User: good.User})
	require.ErrorContains(t, err, "StateKeys is empty")
	root := newClient(t, newPlatform(none), func(c *oauth.Config) { c.RedirectURL = "https://ehr.example/" })
	c := good
	c.Client = root
	_, err = oauth.NewHandler(c)
	require.ErrorContains(t, err, "RedirectURL")
}
