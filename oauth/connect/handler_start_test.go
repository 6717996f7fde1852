package connect_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
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
		answer := s.open(start, "cross-site")
		assert.Equal(t, http.StatusForbidden, answer.StatusCode)
		assert.Empty(t, answer.Cookies())
		assert.Empty(t, answer.Header.Get("Location"))
		result := s.result(t)
		assert.Equal(t, connect.OutcomeOtherSite, result.Outcome)
		require.ErrorIs(t, result.Err, connect.ErrOtherSite)
		page := oauthtest.ReadBody(t, answer)
		assert.Contains(t, page, "Connect your dispensary account?")
		assert.Contains(t, page, `<a class="go" href="./connect?return_to=%2Fpatients%2F7">Connect</a>`)

		for _, from := range []string{"", "none", "same-origin", "same-site"} {
			answer := s.open(start, from)
			require.Equal(t, http.StatusSeeOther, answer.StatusCode, from)
			platform, err := answer.Location()
			require.NoError(t, err)
			back := s.open("https://ehr.example/dispensary/callback?"+code(platform.Query().Get("state")).Encode(), "cross-site", answer.Cookies()...)
			assert.Equal(t, "/patients/7", back.Header.Get("Location"), from)
		}
	})
}

func TestStartRedirectsToConfiguredHost(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture, b *browser) {
		answer := s.open("https://www.ehr.example/dispensary/connect?return_to=/patients%3Ftab=2", "same-origin")
		assert.Equal(t, http.StatusSeeOther, answer.StatusCode)
		assert.Empty(t, answer.Cookies())
		to, err := answer.Location()
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
		answer := s.open("https://www.ehr.example/dispensary/connect?return_to=//evil.example", "same-origin")
		assert.Equal(t, http.StatusBadRequest, answer.StatusCode)
		assert.Equal(t, connect.OutcomeBadLink, s.result(t).Outcome)
	})
}
