package oauth_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

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
