package oauth

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/siteurl"
)

// Config describes one application in one environment, as it was set up in the
// platform's developer dashboard. Site, ClientID, ClientSecret and RedirectURL
// are required.
// API section: "Authentication" 2.
type Config struct {
	// Site is the environment with both of its URLs.
	Site api.Site

	// ClientID and ClientSecret are the application's credentials in that
	// environment. Each environment has its own.
	ClientID     string
	ClientSecret api.Secret

	// RedirectURL is where the platform sends the browser back to. It must be,
	// to the letter, the redirect URI in the dashboard, or the authorization
	// page answers 404; every call to the token endpoint sends it too. HTTPS,
	// unless the host is a loopback address; no fragment.
	RedirectURL string

	// Scopes is the scope set of the application in the dashboard; nil if it
	// is not to be checked. The platform ignores scopes in requests, so these
	// are never sent: they are remembered with each new token, and a token
	// that was obtained with fewer is known to be invalid without asking. Use
	// the constants of package api.
	// API section: "Authentication" 5.
	Scopes []string

	// Transport sends the requests, as with
	// [github.com/dispensary-go/dispensary.WithTransport]. Nil means a connection pool of
	// this client's own.
	Transport http.RoundTripper

	// AttemptTimeout bounds each attempt, as with
	// [github.com/dispensary-go/dispensary.WithAttemptTimeout]. Zero means 30 seconds, and a
	// negative timeout disables the bound.
	AttemptTimeout time.Duration

	// Limiter delays each request that exchanges a code or refreshes or revokes a token. The
	// platform counts all requests of the application, so use the limiter of its calls. A
	// request has the priority of its context: see [api.ContextWithPriority]. Nil means no limit.
	Limiter api.Limiter

	// Logger receives what happens to the requests of this client, and what
	// packages oauth/tokens and oauth/connect do with it: tokens refreshed (debug),
	// users who have to authorize again (info), temporary failures (warn), tokens
	// that cannot be stored and refused credentials (error). No record holds a
	// secret. Nil logs nothing.
	Logger *slog.Logger

	// Observers observe the calls of the token endpoint: exchanging a code,
	// refreshing, revoking.
	Observers []observe.Observer

	// UserAgent is a product such as "ExampleEHR/4.2". It stands before the name of this
	// module in the User-Agent header. Empty sends the name of this module only.
	UserAgent string
}

// validate reports all unusable fields by their names, never by their values.
func (c *Config) validate() error {
	problems := []error{c.Site.Validate()}
	if c.Site.AuthURL == "" {
		problems = append(problems, &api.ArgumentError{Field: "Site.AuthURL", Reason: "of " + c.Site.Environment.String() + " is empty"})
	}
	for _, f := range []struct{ name, reason string }{
		{"ClientID", credentialProblem(c.ClientID)},
		{"ClientSecret", credentialProblem(c.ClientSecret.Reveal())},
		{"RedirectURL", redirectProblem(c.RedirectURL)},
		{"Scopes", scopesProblem(c.Scopes)},
	} {
		if f.reason != "" {
			problems = append(problems, &api.ArgumentError{Field: "oauth.Config." + f.name, Reason: f.reason})
		}
	}
	return errors.Join(problems...)
}

// scopesProblem finds items that cannot be a scope.
func scopesProblem(scopes []string) string {
	for _, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' }) {
			return "must hold one scope an item, without space"
		}
	}
	return ""
}

// credentialProblem finds what copying from a web page does to a credential.
func credentialProblem(value string) string {
	switch {
	case value == "":
		return "is empty"
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "contains space or control characters"
	case !utf8.ValidString(value):
		return "is not valid UTF-8"
	}
	return ""
}

func redirectProblem(raw string) string {
	if raw == "" {
		return "is empty"
	}
	if !utf8.ValidString(raw) {
		return "is not valid UTF-8"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "is not an absolute URL" // the parser's text repeats the address
	}
	u.RawQuery, u.ForceQuery = "", false // a redirect address may have a query; siteurl.Validate allows none
	if err := siteurl.Validate(u.String()); err != nil {
		return strings.TrimPrefix(err.Error(), "dispensary: ")
	}
	return ""
}

// configuredScope returns the application's scope set in the form that tokens
// remember it in.
func (c *Config) configuredScope() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(c.Scopes))), " ")
}

// ScopesAddedSince reports whether scopes were added to the application
// ([Config.Scopes]) since the user authorized with token, which the platform does
// not accept any more then. It is false where either set of scopes is not known.
// API section: "Authentication" 5.
func (c *Client) ScopesAddedSince(token Token) bool {
	if len(c.config.Scopes) == 0 || token.ConfiguredScope == "" {
		return false
	}
	had := strings.Fields(token.ConfiguredScope)
	return slices.ContainsFunc(c.config.Scopes, func(scope string) bool { return !slices.Contains(had, scope) })
}
