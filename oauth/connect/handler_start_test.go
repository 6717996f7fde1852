package connect_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

// open requests a URL as a browser that sends Sec-Fetch-Site.
func (s *fixture) open(address, from string, cookies ...*http.Cookie) *http.Response {
	r := httptest.NewRequest(http.MethodGet, address, nil)
	if from != "" {
		r.Header.Set("Sec-Fetch-Site", from)
		r.Header.Set("Sec-Fetch-Mode", "navigate")
	}
	for _, cookie := range cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Result()
}

// The platform may remember the authorization of another person's account, so only the user
// may start the flow. The callback always comes from another site.
func TestOtherSiteCannotStartFlow(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, _ *browser) {
		const start = "https://ehr.example/dispensary/connect?return_to=/patients/7"
		response := s.open(start, "cross-site")
		assert.Equal(t, http.StatusForbidden, response.StatusCode)
		assert.Empty(t, response.Cookies())
		assert.Empty(t, response.Header.Get("Location"))
		result := s.result(t)
		assert.Equal(t, connect.OutcomeOtherSite, result.Outcome)
		require.ErrorIs(t, result.Err, connect.ErrOtherSite)
		page := oauthtest.ReadBody(t, response)
		assert.Contains(t, page, "Connect your dispensary account?")
		assert.Contains(t, page, `<a class="go" href="./connect?return_to=%2Fpatients%2F7">Connect</a>`)

		for _, from := range []string{"", "none", "same-origin", "same-site"} {
			response := s.open(start, from)
			require.Equal(t, http.StatusSeeOther, response.StatusCode, from)
			platform, err := response.Location()
			require.NoError(t, err)
			back := s.open("https://ehr.example/dispensary/callback?"+code(platform.Query().Get("state")).Encode(), "cross-site", response.Cookies()...)
			assert.Equal(t, "/patients/7", back.Header.Get("Location"), from)
		}
	})
}

func TestStartRedirectsToConfiguredHost(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		response := s.open("https://www.ehr.example/dispensary/connect?return_to=/patients%3Ftab=2", "same-origin")
		assert.Equal(t, http.StatusSeeOther, response.StatusCode)
		assert.Empty(t, response.Cookies())
		to, err := response.Location()
		require.NoError(t, err)
		assert.Equal(t, "ehr.example", to.Host)
		assert.Equal(t, "/dispensary/connect", to.Path)
		assert.Equal(t, "/patients?tab=2", to.Query().Get("return_to"))
		assert.Contains(t, s.logs.String(), "www.ehr.example")

		started, err := b.get(s.handler, to.String()).Location()
		require.NoError(t, err)
		assert.Equal(t, "login.platform.example", started.Host)
		back := b.back(s, code(started.Query().Get("state")))
		assert.Equal(t, "/patients?tab=2", back.Header.Get("Location"))
	})
}

// A proxy may replace the Host header, so a second redirect would never end.
func TestStartRedirectsOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, _ *browser) {
		const inside = "http://10.0.0.7:8080"
		first, err := s.open(inside+"/dispensary/connect", "same-origin").Location()
		require.NoError(t, err)
		require.Equal(t, "ehr.example", first.Host)
		second := s.open(inside+first.RequestURI(), "same-origin")
		to, err := second.Location()
		require.NoError(t, err)
		assert.Equal(t, "login.platform.example", to.Host)
		assert.Len(t, second.Cookies(), 1)
	})
}

func TestStartComparesHostNames(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, _ *browser) {
		for host, platform := range map[string]bool{
			"ehr.example": true, "EHR.example": true, "ehr.example:443": true, "evil.example": false, "ehr.example.evil.example": false,
		} {
			r := httptest.NewRequest(http.MethodGet, "https://ehr.example/dispensary/connect", nil)
			r.Host = host
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			to, err := url.Parse(w.Header().Get("Location"))
			require.NoError(t, err)
			assert.Equal(t, platform, to.Host == "login.platform.example", host)
			assert.NotContains(t, to.String(), "evil")
		}
	})
}

// An invalid return address must not cause a redirect.
func TestStartOnOtherHostChecksReturn(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, _ *browser) {
		response := s.open("https://www.ehr.example/dispensary/connect?return_to=//evil.example", "same-origin")
		assert.Equal(t, http.StatusBadRequest, response.StatusCode)
		assert.Equal(t, connect.OutcomeBadLink, s.result(t).Outcome)
	})
}

var rejectedReturns = []string{
	"", "evil.example", "evil.example/x", "//", "//?", "//evil.example", "///evil.example", "////evil.example",
	`/\evil.example`, `\/evil.example`, `\\evil.example`, `/a\b`, "/%5cevil.example", "/%5Cevil.example",
	"%2f%2fevil.example", "/%2fevil.example", "/%2F/evil.example", "/%252fevil.example", "/a/%2e%2e//evil.example",
	"https:evil.example", "https:/evil.example", "https:///evil.example", "http://evil.example", "https://evil.example",
	"HTTPS://evil.example", "https://app.ehr.example@evil.example", "https://app.ehr.example.evil.example",
	"https://app.ehr.example:8443/x", "http://app.ehr.example/x", `https://app.ehr.example\.evil.example`,
	"https://app.ehr.example%2eevil.example", "https://evil.example#https://app.ehr.example",
	"javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "java\tscript:alert(1)",
	"/\t/evil.example", "/\n/evil.example", "\t//evil.example", " //evil.example", "/ /evil.example", "\x00//evil.example",
	"/%09/evil.example", "/%0d%0aSet-Cookie:a=b", "/%00", "/..//evil.example", "/.//evil.example", "/a/../b", "/./a", "/a//b",
	"?return", "#fragment", "connect", "./x", "../x", "/\u2028", "/é", "//[::1]", "/%zz", "/" + strings.Repeat("a", 1024),
	"https://app.ehr.example/x", "https://ehr.example/x",
}

var acceptedReturns = []string{
	"/", "/patients", "/patients/7", "/patients/", "/patients?tab=2&u=https://x.example//y", "/a#b", "/a%20b", "/@user", "/a:b",
}

func TestStartValidatesReturnAddress(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		s := newFixture(t)
		for _, address := range rejectedReturns {
			b := newBrowser()
			response := b.get(s.handler, "/dispensary/connect?return_to="+url.QueryEscape(address))
			assert.Equal(t, http.StatusBadRequest, response.StatusCode, "%q", address)
			assert.Empty(t, b.cookies)
			require.ErrorIs(t, s.result(t).Err, connect.ErrReturn)
			assert.Equal(t, connect.OutcomeBadLink, s.result(t).Outcome)
			assert.NotContains(t, oauthtest.ReadBody(t, response), "evil.example")
		}
		for _, address := range acceptedReturns {
			b := newBrowser()
			state := b.begin(t, s, "?return_to="+url.QueryEscape(address))
			assert.Equal(t, address, b.back(s, code(state)).Header.Get("Location"))
		}
		twice := newBrowser().get(s.handler, "/dispensary/connect?return_to=/a&return_to=/b")
		assert.Equal(t, http.StatusBadRequest, twice.StatusCode)
	})
}

// A browser must resolve every accepted address to this site.
func FuzzReturnAddress(f *testing.F) {
	for _, address := range append(rejectedReturns, acceptedReturns...) {
		f.Add(address)
	}
	s := newFixture(f)
	f.Fuzz(func(t *testing.T, address string) {
		b := newBrowser()
		response := b.get(s.handler, "/dispensary/connect?return_to="+url.QueryEscape(address))
		if response.StatusCode != http.StatusSeeOther {
			return
		}
		// Browsers remove tabs and newlines, trim spaces, and treat \ as /.
		seen := strings.NewReplacer("\t", "", "\n", "", "\r", "", `\`, "/").Replace(strings.TrimSpace(address))
		base, err := url.Parse("https://ehr.example/dispensary/callback")
		require.NoError(t, err)
		to, err := base.Parse(seen)
		require.NoError(t, err)
		origin := strings.ToLower(to.Scheme + "://" + to.Host)
		if origin != "https://ehr.example" {
			t.Fatalf("%q resolves to %s", address, origin)
		}
		if strings.HasPrefix(seen, "//") {
			t.Fatalf("%q could resolve to any host", address)
		}
	})
}

// Only a callback with the exact state connects a user, regardless of the cookie and of other
// spellings.
func FuzzCallback(f *testing.F) {
	s := newFixture(f)
	b := newBrowser()
	genuine := b.begin(f, s, "")
	f.Add("code=c&state="+genuine[:75], "")
	f.Add("code=c&state="+genuine+"%3D", "x")
	f.Add("code=c&state="+genuine+"&state=", "")
	f.Add("state=&error=access_denied", "AAAA")
	f.Add("%zz", "")
	f.Fuzz(func(t *testing.T, query, cookie string) {
		if values, err := url.ParseQuery(query); err == nil && len(values["state"]) == 1 && values.Get("state") == genuine && cookie == "" {
			return
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/dispensary/callback", nil)
		require.NoError(t, err)
		r.URL.RawQuery = query
		for name, c := range b.cookies {
			if cookie != "" {
				c = &http.Cookie{Value: cookie}
			}
			r.Header.Add("Cookie", name+"="+c.Value)
		}
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code == http.StatusSeeOther || len(s.platform.Sent()) != 0 {
			t.Fatalf("callback %q with cookie %q connected the user", query, cookie)
		}
	})
}
