package oauth_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

func TestFlowErrorsDescribeProblem(t *testing.T) {
	t.Parallel()
	callback := func(query url.Values) error { _, err := oauth.ParseCallback(query, "state"); return err }
	exchange := func(status int, body string) error {
		p := oauthtest.NewPlatform(oauthtest.RotateOnFirstUse)
		p.Inject(oauthtest.Answers(status, body))
		_, err := oauthtest.NewClient(t, p).Exchange(t.Context(), api.NewSecret("code-1"))
		return err
	}
	const badLink = "This link does not work. Please connect your dispensary account again."
	for name, test := range map[string]struct {
		err  error
		want api.Problem
	}{
		"canceled":  {callback(url.Values{"error": {"access_denied"}}), api.Problem{Status: 409, Title: "The dispensary account was not connected.", Reauthorize: true}},
		"state":     {callback(url.Values{"state": {"other"}, "code": {"c"}}), api.Problem{Status: 400, Title: badLink, Reauthorize: true}},
		"no code":   {callback(url.Values{"state": {"state"}}), api.Problem{Status: 400, Title: badLink, Reauthorize: true}},
		"error":     {callback(url.Values{"state": {"state"}, "error": {"server_error"}, "error_description": {"c4n4ry"}}), api.Problem{Status: 502, Title: "The dispensary reported an error. Please try again later."}},
		"used code": {exchange(401, `{"error":"invalid_grant"}`), api.Problem{Status: 400, Title: badLink, Reauthorize: true}},
		"rejected application": {exchange(401, `{"error":"invalid_client"}`), api.Problem{
			Status: 500, Title: "The connection to the dispensary is not set up correctly. Please contact support.",
		}},
	} {
		assert.Equal(t, &test.want, api.ProblemOf(test.err), name)
	}
}
