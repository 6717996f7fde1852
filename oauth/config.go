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

// Config describes one application in one environment, as configured in the platform's
// developer dashboard. Site, ClientID, ClientSecret and RedirectURL are required.
// API section: "Authentication" 2.
type Config struct {
	// Site is the environment with its BaseURL and AuthURL, which are both required.
	Site api.Site

	// ClientID and ClientSecret are the application's credentials in that environment. Each
	// environment has its own.
	ClientID     string
	ClientSecret api.Secret

	// RedirectURL is the URL to which the platform sends the browser back. It must match the
	// redirect URI in the dashboard exactly. Otherwise the authorization page responds with
	// 404. Every request to the token endpoint contains it too. It must use HTTPS, unless the
	// host is a loopback address, and must have no fragment.
	RedirectURL string

	// Scopes contains all scopes of the application in the dashboard, as constants of package
	// api. Nil means no check. The platform ignores scopes in requests, so the client never
	// sends them. It stores them in each new token instead. A token obtained with fewer scopes
	// is then known to be invalid without a request.
	// API section: "Authentication" 5.
	Scopes []string

	// Transport sends the requests, as with
	// [github.com/dispensary-go/dispensary.WithTransport]. Nil means a connection pool for
	// this client only.
	Transport http.RoundTripper

	// AttemptTimeout is the timeout of each attempt, as with
	// [github.com/dispensary-go/dispensary.WithAttemptTimeout]. Zero means 30 seconds. A
	// negative value means no timeout.
	AttemptTimeout time.Duration

	// Limiter delays each request that exchanges a code or refreshes or revokes a token. The
	// platform counts all requests of the application together, so use the same limiter as for
	// its API calls. A request has the priority of its context, see [api.ContextWithPriority].
	// Nil means no limit.
	Limiter api.Limiter

	// Logger receives the records of this client and of packages oauth/tokens and
	// oauth/connect: refreshed tokens (debug), users who must authorize again (info),
	// temporary failures (warn), tokens that cannot be stored and rejected credentials
	// (error). No record contains a secret. Nil disables logging.
	Logger *slog.Logger

	// Observers observe the requests to the token endpoint: exchange, refresh and revoke. Nil
	// means no observers.
	Observers []observe.Observer

	// UserAgent is your product, such as "ExampleEHR/4.2". It precedes the name of this module
	// in the User-Agent header. Empty means only the name of this module.
	UserAgent string
}

// validate returns an error for each invalid field. Errors contain names, never values.
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

// scopesProblem returns the reason if an item cannot be a scope, or "".
func scopesProblem(scopes []string) string {
	for _, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' }) {
			return "must contain one scope per item, without space"
		}
	}
	return ""
}

// credentialProblem returns the reason if a credential is unusable, such as after copying it
// with a line break from a web page, or "".
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
		return "is not an absolute URL" // the parser's error contains the URL
	}
	u.RawQuery, u.ForceQuery = "", false // unlike siteurl.Validate, allow a query
	if err := siteurl.Validate(u.String()); err != nil {
		return strings.TrimPrefix(err.Error(), "dispensary: ")
	}
	return ""
}

// configuredScope returns [Config.Scopes] in the form of [Token.ConfiguredScope].
func (c *Config) configuredScope() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(c.Scopes))), " ")
}

// ScopesAddedSince reports whether [Config.Scopes] contains scopes that were added since the
// user authorized with token. The platform no longer accepts such a token. The result is false
// if [Config.Scopes] or [Token.ConfiguredScope] is empty.
// API section: "Authentication" 5.
func (c *Client) ScopesAddedSince(token Token) bool {
	if len(c.config.Scopes) == 0 || token.ConfiguredScope == "" {
		return false
	}
	had := strings.Fields(token.ConfiguredScope)
	return slices.ContainsFunc(c.config.Scopes, func(scope string) bool { return !slices.Contains(had, scope) })
}
