package connect_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Successful and failed flows show neither the code, the state, a token nor a key in a page, a
// log, an event or a result.
func TestFlowShowsNoSecret(t *testing.T) {
	t.Parallel()
	good := oauthtest.Answers(200, `{"oauth":{"access_token":"`+oauthtest.Canary+`-a","refresh_token":"`+oauthtest.Canary+`-r","resource_owner":{"id":"prac-1","type":"Practitioner"}}}`)
	echo := `{"error":"%s","error_description":"` + oauthtest.Canary + `"}`
	for name, f := range map[string]oauthtest.Fault{
		"connected":      good,
		"code rejected":  oauthtest.Answers(400, fmt.Sprintf(echo, "invalid_grant")),
		"app rejected":   oauthtest.Answers(401, fmt.Sprintf(echo, "invalid_client")),
		"server error":   oauthtest.Answers(500, oauthtest.Canary),
		"truncated":      oauthtest.Answers(200, `{"oauth":{"access_token":"`+oauthtest.Canary),
		"network":        func(func() *http.Response) (*http.Response, error) { return nil, errors.New(oauthtest.Canary) },
		"unknown status": oauthtest.Answers(418, oauthtest.Canary),
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
					answer := b.back(s, url.Values{"code": {oauthtest.Canary + "-code"}, "state": {state}})
					again := b.back(s, url.Values{"code": {oauthtest.Canary + "-code"}, "state": {state}})
					shown := oauthtest.ReadBody(t, answer) + oauthtest.ReadBody(t, again) + fmt.Sprint(answer.Header, again.Header) + s.logs.String()
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
