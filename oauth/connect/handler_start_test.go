package connect_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

// open opens an address as a browser does that reports where the request comes from.
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

// The platform may remember the consent of an account that is not the user's, so only the
// user may start the flow. The callback always comes from another site.
func TestOtherSiteCannotStartTheFlow(t *testing.T) {
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
		assert.Contains(t, page, `<a href="./connect?return_to=%2Fpatients%2F7">Connect</a>`)

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
