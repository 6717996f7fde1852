package oauth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

func TestNewNamesInvalidField(t *testing.T) {
	type test struct {
		change func(*oauth.Config)
		want   string
	}
	oauthtest.Each(t, map[string]test{
		"no environment":     {func(c *oauth.Config) { c.Site.Environment = "" }, "Environment is empty"},
		"no base URL":        {func(c *oauth.Config) { c.Site.BaseURL = "" }, "BaseURL"},
		"no auth URL":        {func(c *oauth.Config) { c.Site.AuthURL = "" }, "Site.AuthURL of us/sandbox is empty"},
		"plain auth URL":     {func(c *oauth.Config) { c.Site.AuthURL = "http://login.platform.example" }, "AuthURL"},
		"no id":              {func(c *oauth.Config) { c.ClientID = "" }, "oauth.Config.ClientID is empty"},
		"id with newline":    {func(c *oauth.Config) { c.ClientID = "abc\n" }, "oauth.Config.ClientID contains space"},
		"no secret":          {func(c *oauth.Config) { c.ClientSecret = api.Secret{} }, "oauth.Config.ClientSecret is empty"},
		"secret with space":  {func(c *oauth.Config) { c.ClientSecret = api.NewSecret(" canary") }, "oauth.Config.ClientSecret contains space"},
		"no redirect":        {func(c *oauth.Config) { c.RedirectURL = "" }, "oauth.Config.RedirectURL is empty"},
		"plain redirect":     {func(c *oauth.Config) { c.RedirectURL = "http://ehr.example/cb" }, "oauth.Config.RedirectURL must use HTTPS"},
		"relative redirect":  {func(c *oauth.Config) { c.RedirectURL = "/cb" }, "oauth.Config.RedirectURL is not an absolute URL"},
		"malformed redirect": {func(c *oauth.Config) { c.RedirectURL = "https://canary\x7f/" }, "oauth.Config.RedirectURL is not an absolute URL"},
		"redirect fragment":  {func(c *oauth.Config) { c.RedirectURL = "https://ehr.example/cb#x" }, "oauth.Config.RedirectURL must not contain"},
		"redirect with user": {func(c *oauth.Config) { c.RedirectURL = "https://canary@ehr.example/cb" }, "oauth.Config.RedirectURL must not contain user"},
		"id in Latin-1":      {func(c *oauth.Config) { c.ClientID = "canary\xe9" }, "oauth.Config.ClientID is not valid UTF-8"},
		"secret in Latin-1":  {func(c *oauth.Config) { c.ClientSecret = api.NewSecret("canary\xe9") }, "oauth.Config.ClientSecret is not valid UTF-8"},
		"redirect, Latin-1":  {func(c *oauth.Config) { c.RedirectURL += "\xe9" }, "oauth.Config.RedirectURL is not valid UTF-8"},
		"scopes in one item": {func(c *oauth.Config) { c.Scopes = []string{"a b"} }, "oauth.Config.Scopes must contain one scope"},
		"empty scope":        {func(c *oauth.Config) { c.Scopes = []string{""} }, "oauth.Config.Scopes"},
	}, func(t *testing.T, test test) {
		c := oauthtest.Config(nil)
		test.change(&c)
		_, err := oauth.New(c)
		require.ErrorContains(t, err, test.want)
		assert.NotContains(t, err.Error(), "canary")
	})
}

func TestNewNamesAllInvalidFields(t *testing.T) {
	t.Parallel()
	_, err := oauth.New(oauth.Config{Site: api.Site{Environment: oauthtest.USSandbox}, Scopes: []string{""}})
	for _, field := range []string{"Site.BaseURL", "Site.AuthURL", "ClientID", "ClientSecret", "RedirectURL", "Scopes"} {
		require.ErrorContains(t, err, field)
	}
	require.ErrorIs(t, err, api.ErrArgument)
}

func TestNewAcceptsLoopbackRedirectURL(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://127.0.0.1:8080/cb", "http://localhost/cb", "http://[::1]/cb", "https://ehr.example/cb?tenant=7"} {
		c := oauthtest.Config(nil)
		c.RedirectURL, c.Transport = address, nil
		client, err := oauth.New(c)
		require.NoError(t, err)
		assert.Equal(t, oauthtest.USSandbox, client.Environment())
	}
}

func TestAuthorizeURLContainsParameters(t *testing.T) {
	t.Parallel()
	client := oauthtest.NewClient(t, nil, func(c *oauth.Config) { c.Site.AuthURL += "/sub/" })
	address, err := client.AuthorizeURL("a&b=c")
	require.NoError(t, err)
	u, err := url.Parse(address)
	require.NoError(t, err)
	assert.Equal(t, "https://login.platform.example/sub/oauth/authorize", u.Scheme+"://"+u.Host+u.Path)
	assert.Equal(t, url.Values{
		"client_id": {"client-1"}, "redirect_uri": {"https://ehr.example/callback?tenant=7"},
		"response_type": {"code"}, "state": {"a&b=c"},
	}, u.Query())

	_, err = client.AuthorizeURL("")
	require.ErrorIs(t, err, api.ErrArgument)
	require.ErrorContains(t, err, "oauth.authorize: state is empty")
	_, err = client.AuthorizeURL("a\xe9")
	require.EqualError(t, err, "dispensary: oauth.authorize: state must be valid UTF-8")
}

func TestNewStateIsRandom(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		state := oauth.NewState()
		assert.GreaterOrEqual(t, len(state), 26)
		assert.Equal(t, state, url.QueryEscape(state))
		seen[state] = true
	}
	assert.Len(t, seen, 1000)
}

func TestNewRejectsScopesWithSpace(t *testing.T) {
	t.Parallel()
	config := func(scopes ...string) oauth.Config {
		c := oauthtest.Config(nil)
		c.Scopes = scopes
		return c
	}
	_, err := oauth.New(config(append(operation.Scopes(), "labs:read")...))
	require.NoError(t, err, "New must accept a scope that the platform added later")
	_, err = oauth.New(config("with space"))
	assert.ErrorContains(t, err, "without space")
	assert.NotContains(t, err.Error(), "with space")
}

func TestEveryRequestSendsUserAgent(t *testing.T) {
	t.Parallel()
	for product, want := range map[string]string{"": "dispensary-go/", "ExampleEHR/4.2": "ExampleEHR/4.2 dispensary-go/"} {
		var agents []string
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		client := oauthtest.NewClient(t, oauthtest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			agents = append(agents, r.UserAgent())
			if r.URL.Path == "/api/oauth/revoke" {
				return oauthtest.Respond(http.StatusOK, "{}"), nil
			}
			return p.RoundTrip(r)
		}), func(c *oauth.Config) { c.UserAgent = product })
		_, err := client.Exchange(t.Context(), api.NewSecret("code-1"))
		require.NoError(t, err)
		_, err = client.Refresh(t.Context(), oauthtest.FirstToken(0))
		require.NoError(t, err)
		require.NoError(t, client.Revoke(t.Context(), oauthtest.FirstToken(0)))
		require.Len(t, agents, 3)
		for _, agent := range agents {
			assert.Regexp(t, "^"+want+`\S+$`, agent)
		}
	}
}

func TestParseCallbackValidatesQuery(t *testing.T) {
	const state = "the-state"
	type test struct {
		query, state, code string
		want               error
		errorCode          string
	}
	oauthtest.Each(t, map[string]test{
		"authorized":              {"code=abc&state=the-state", state, "abc", nil, ""},
		"more parameters":         {"code=abc&state=the-state&new=1", state, "abc", nil, ""},
		"canceled":                {"error=access_denied&state=the-state&error_description=%3Cb%3E", state, "", oauth.ErrCanceled, "access_denied"},
		"canceled without state":  {"error=access_denied", state, "", oauth.ErrCanceled, "access_denied"},
		"canceled, forged":        {"error=access_denied&state=other", state, "", oauth.ErrState, ""},
		"another error":           {"error=invalid_scope&state=the-state", state, "", oauth.ErrCallback, "invalid_scope"},
		"error with a code":       {"error=server_error&code=abc&state=the-state", state, "", oauth.ErrCallback, "server_error"},
		"error with a newline":    {"error=%0Aforged+log+line&state=the-state", state, "", oauth.ErrCallback, ""},
		"long error":              {"error=" + strings.Repeat("a", 65) + "&state=the-state", state, "", oauth.ErrCallback, ""},
		"empty error":             {"error=&state=the-state", state, "", oauth.ErrCallback, ""},
		"wrong state":             {"code=abc&state=other", state, "", oauth.ErrState, ""},
		"beginning of the state":  {"code=abc&state=the", state, "", oauth.ErrState, ""},
		"no state":                {"code=abc", state, "", oauth.ErrState, ""},
		"empty state":             {"code=abc&state=", state, "", oauth.ErrState, ""},
		"two states":              {"code=abc&state=the-state&state=other", state, "", oauth.ErrState, ""},
		"no state stored":         {"code=abc&state=", "", "", oauth.ErrState, ""},
		"no state on either side": {"code=abc", "", "", oauth.ErrState, ""},
		"no code":                 {"state=the-state", state, "", oauth.ErrNoCode, ""},
		"empty code":              {"code=&state=the-state", state, "", oauth.ErrNoCode, ""},
		"two codes":               {"code=a&code=b&state=the-state", state, "", oauth.ErrNoCode, ""},
		"empty query":             {"", state, "", oauth.ErrState, ""},
	}, func(t *testing.T, test test) {
		query, err := url.ParseQuery(test.query)
		require.NoError(t, err)
		code, err := oauth.ParseCallback(query, test.state)
		assert.Equal(t, test.code, code.Reveal())
		if test.want == nil {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, test.want)
		var e *oauth.CallbackError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, test.errorCode, e.Code)
		assert.NotContains(t, err.Error(), "<b>")
		assert.NotContains(t, err.Error(), "\n")
	})
}

func FuzzParseCallback(f *testing.F) {
	f.Add("code=abc&state=s", "s")
	f.Add("error=access_denied&error_description=x", "s")
	f.Add("code=a&code=b&state=s&state=s", "s")
	f.Fuzz(func(t *testing.T, raw, state string) {
		query, err := url.ParseQuery(raw)
		if err != nil {
			return
		}
		code, err := oauth.ParseCallback(query, state)
		switch {
		case err == nil:
			if code.IsZero() || state == "" || query.Get("state") != state || query.Get("code") != code.Reveal() || query.Has("error") {
				t.Fatal("ParseCallback returned a code for an invalid query")
			}
		case !code.IsZero():
			t.Fatal("ParseCallback returned a code together with an error")
		case strings.ContainsAny(err.Error(), "\r\n<"):
			t.Fatalf("the error contains text of the callback: %q", err)
		}
	})
}

func TestFlowErrorsDescribeProblem(t *testing.T) {
	t.Parallel()
	callback := func(query url.Values) error { _, err := oauth.ParseCallback(query, "state"); return err }
	exchange := func(status int, body string) error {
		p := oauthtest.NewPlatform(oauthtest.RotateOnFirstUse)
		p.Inject(oauthtest.Responses(status, body))
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
