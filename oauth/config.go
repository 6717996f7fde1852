package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Defaults of [Config]. They are choices of this library; the API states none.
const (
	// DefaultLeeway lets a token that is in use be replaced several times over
	// before it ends, should the platform be unwell.
	DefaultLeeway = 5 * time.Minute

	// DefaultLeaseTTL leaves the token endpoint ten seconds to answer, twice.
	DefaultLeaseTTL = 30 * time.Second
)

// Config describes one application in one environment, as it was set up in the
// platform's developer dashboard. Site, ClientID, ClientSecret and RedirectURL
// are required.
// API section: "Authentication" 2.
type Config struct {
	// Site is the environment with its two addresses.
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
	// the constants of package api. What is nearly one of them is refused as
	// misspelt; anything else is taken for a scope that the platform has added.
	// API section: "Authentication" 5.
	Scopes []string

	// HTTPClient gives transport and time-out to the calls; nil means a pooled
	// client of the module's own.
	HTTPClient *http.Client

	// Logger receives what happens to tokens: refreshed (debug), users who
	// have to authorize again (info), failures that pass (warn), pairs that
	// cannot be stored and refused credentials (error). No record holds a
	// secret; records name the [Key]. Nil logs nothing.
	Logger *slog.Logger

	// OnEvent is told what happens to users and to the application; see
	// [Event]. It is called by whoever caused the event, a call or the
	// refresher, and at any time by several: it must be safe for concurrent
	// use and return at once. Nil tells nobody.
	OnEvent func(ctx context.Context, event Event)

	// Observers are told how calls and refreshes go; nil tells nobody.
	Observers []Observer

	// UserAgent names the program in every request; empty sends none.
	UserAgent string

	// Leeway is how long before its end a token that is in use is replaced in
	// the background. 0 means [DefaultLeeway]; never more than a quarter of
	// the token's life is used.
	Leeway time.Duration

	// LeaseTTL is how long one replica may take for a refresh before another
	// may try, at least a second; 0 means [DefaultLeaseTTL]. A third of it is
	// what the token endpoint gets for an answer. A replica that dies in the
	// middle of a refresh keeps its user waiting for this long at most.
	LeaseTTL time.Duration

	// Breaker says when refreshing in the background pauses; the zero value is
	// a good one.
	Breaker BreakerPolicy
}

// minLeaseTTL keeps the time for one answer above what a network needs.
const minLeaseTTL = time.Second

// validate reports the first unusable field by its name, never by its value.
func (c *Config) validate() error {
	if err := c.Site.Validate(); err != nil {
		return err
	}
	for _, f := range []struct{ name, reason string }{
		{"ClientID", credentialProblem(c.ClientID)},
		{"ClientSecret", credentialProblem(c.ClientSecret.Reveal())},
		{"RedirectURL", redirectProblem(c.RedirectURL)},
		{"Scopes", scopesProblem(c.Scopes)},
		{"Leeway", negative(c.Leeway)},
		{"LeaseTTL", leaseProblem(c.LeaseTTL)},
		{"Breaker", c.Breaker.problem()},
	} {
		if f.reason != "" {
			return &api.ArgumentError{Field: "oauth.Config." + f.name, Reason: f.reason}
		}
	}
	return nil
}

// withDefaults returns a copy that shares nothing with the caller's.
func (c Config) withDefaults() *Config {
	c.Scopes = slices.Clone(c.Scopes)
	c.Observers = slices.Clone(c.Observers)
	if c.Leeway == 0 {
		c.Leeway = DefaultLeeway
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = DefaultLeaseTTL
	}
	c.Breaker = c.Breaker.withDefaults()
	return &c
}

// credentialProblem finds what copying from a web page does to a credential.
func credentialProblem(value string) string {
	switch {
	case value == "":
		return "is empty"
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "contains space or control characters"
	}
	return ""
}

func redirectProblem(raw string) string {
	if raw == "" {
		return "is empty"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "is not an absolute URL" // the parser's text repeats the address
	}
	u.RawQuery, u.ForceQuery = "", false // a redirect address may have a query; api.ValidateURL allows none
	if err := api.ValidateURL(u.String()); err != nil {
		return strings.TrimPrefix(err.Error(), "dispensary: ")
	}
	return ""
}

func negative(d time.Duration) string {
	if d < 0 {
		return "must not be negative"
	}
	return ""
}

func leaseProblem(d time.Duration) string {
	if d != 0 && d < minLeaseTTL {
		return "must be at least a second"
	}
	return ""
}

// configuredScope returns the application's scope set in the form that tokens
// remember it in.
func (c *Config) configuredScope() string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(c.Scopes))), " ")
}

// outgrown reports a token that was obtained before a scope was added to the
// application. Where either set is not known, nothing is.
func (c *Config) outgrown(t Token) bool {
	if len(c.Scopes) == 0 || t.ConfiguredScope == "" {
		return false
	}
	had := strings.Fields(t.ConfiguredScope)
	return slices.ContainsFunc(c.Scopes, func(scope string) bool { return !slices.Contains(had, scope) })
}
