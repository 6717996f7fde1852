package dispensaryotel_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/oauth"
)

// Every operation meets every fault, observed, with debug logging on. No value of
// a patient, no token, no secret, no id of a path and no word of what was sent or
// answered is in a span, a metric, a log line or the baggage.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	for name := range calltest.All(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFixture(t)
			for _, f := range mishaps {
				c.wire.mishap = f
				err := c.call(t, name)
				if f == nil {
					require.NoError(t, err)
				}
			}
			said := c.dump(t) + c.log.String()
			if name == "oauth.authorize" { // a page for a browser: nothing is sent
				return
			}
			assert.Contains(t, said, name, "nothing was said of it")
			assert.NotEmpty(t, c.wire.words, "nothing was sent that could leak")
			requireSilent(t, c.Platform, said, c.wire.words)
		})
	}
}

// requireSilent fails if the text has a value of the platform's patients, one of its
// secrets, or one of words in it.
func requireSilent(t *testing.T, platform *dispensarytest.Server, said string, words map[string]bool) {
	t.Helper()
	platform.CheckNoLeak(t, said)
	for word := range words {
		if at := strings.Index(said, word); at >= 0 {
			t.Errorf("%q is in the text: …%s", word, said[max(0, at-120):min(len(said), at+60)])
		}
	}
}

// fixture is a platform whose calls are observed and go through a wire.
type fixture struct {
	*calltest.Fixture
	*recorded
	wire *wire
	log  *lockedBuffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := &fixture{Fixture: calltest.NewFixture(t), recorded: record(t), log: &lockedBuffer{}}
	c.wire = &wire{t: t, base: c.Platform.HTTPClient().Transport, words: map[string]bool{}}
	c.Fixture.Client = c.Platform.Client(c.Platform.Users()[0], c.recorded.Client(), dispensary.WithLogger(c.log.logger()),
		dispensary.WithHTTPClient(&http.Client{Transport: c.wire}),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2, MinWait: time.Nanosecond, MaxWait: time.Nanosecond}))
	return c
}

// call makes one call. The table's own calls of the token endpoint are made by a
// client without observers.
func (c *fixture) call(t *testing.T, name string) error {
	t.Helper()
	switch name {
	case operation.OAuthToken.Name:
		_, err := c.oauth(t).Exchange(t.Context(), c.code(t))
		return err
	case operation.OAuthRevoke.Name:
		token, err := calltest.OAuth(t, c.Platform).Exchange(t.Context(), c.code(t))
		require.NoError(t, err)
		return c.oauth(t).Revoke(t.Context(), token, dispensary.WithoutRetries())
	}
	_, err := calltest.All(t)[name](t.Context(), c.Fixture)
	return err
}

func (c *fixture) oauth(t *testing.T) *oauth.Client {
	t.Helper()
	app := c.Platform.Application()
	client, err := oauth.New(c.OAuth(oauth.Config{
		Site: c.Platform.Site(), HTTPClient: &http.Client{Transport: c.wire}, Logger: c.log.logger(),
		ClientID: app.ClientID, ClientSecret: dispensary.Secret(app.ClientSecret), RedirectURL: app.RedirectURI,
	}))
	require.NoError(t, err)
	return client
}

// code walks a user through the authorization page.
func (c *fixture) code(t *testing.T) dispensary.Secret {
	t.Helper()
	state := oauth.NewState()
	address, err := calltest.OAuth(t, c.Platform).AuthorizeURL(state)
	require.NoError(t, err)
	back, err := c.Platform.Approve(address, c.Platform.Users()[0])
	require.NoError(t, err)
	code, err := oauth.ParseCallback(back.Query(), state)
	require.NoError(t, err)
	return code
}
