package dispensary

import (
	"context"
	"os"

	"github.com/dispensary-go/dispensary/api"
)

// Region is the country a platform account belongs to: [US] or [Canada].
// Accounts, tokens and records of one region do not exist in the other.
//
// See [api.Region].
type Region = api.Region

// The regions of the platform.
const (
	US     = api.US     // United States
	Canada = api.Canada // Canada
)

// Stage distinguishes live data from test data: [Production] or [Sandbox].
//
// See [api.Stage].
type Stage = api.Stage

// The stages of the platform.
const (
	Production = api.Production // live data
	Sandbox    = api.Sandbox    // test data
)

// Environment is one of the platform's separate worlds: a region at a stage. It
// is comparable. Tokens are bound to the environment that issued them, and a
// client of another one refuses them before anything is sent.
//
// Its fields are Region and Stage, its methods Validate and Variables; see
// [api.Environment].
type Environment = api.Environment

// Site is an environment with its two addresses: that of the API, and that of
// the authorization page, whose host may differ.
//
// Its fields are Environment, BaseURL and AuthURL, its method Validate; see
// [api.Site].
type Site = api.Site

// ParseEnvironment reads the form that [Environment.String] writes: "us/sandbox".
func ParseEnvironment(s string) (Environment, error) { return api.ParseEnvironment(s) }

// NewFromEnv returns a client that environment variables describe; options come
// after them and win.
//
//	DISPENSARY_<REGION>_<STAGE>_BASE_URL  addresses of a site, for example
//	DISPENSARY_<REGION>_<STAGE>_AUTH_URL  DISPENSARY_US_SANDBOX_BASE_URL
//	DISPENSARY_ENVIRONMENT                which site, for example us/sandbox; needed only if several are set
//	DISPENSARY_ACCESS_TOKEN               optional: the bearer token to call with; it is not refreshed
//	DISPENSARY_CLINIC_KEY                 optional: the clinic's key, sent with every call
//
// The error names a variable that is missing or unusable.
// Programs that serve users take [WithTokenSource] or [Client.WithTokenSource] with
// the sources of package oauth in place of a fixed token.
func NewFromEnv(options ...Option) (*Client, error) { return newFromEnv(os.LookupEnv, options) }

func newFromEnv(lookup func(name string) (value string, ok bool), options []Option) (*Client, error) {
	site, err := siteFromEnv(lookup)
	if err != nil {
		return nil, err
	}
	var given []Option
	if token, _ := lookup("DISPENSARY_ACCESS_TOKEN"); token != "" {
		given = append(given, WithTokenSource(fixedToken{AccessToken{Secret: NewSecret(token), Environment: site.Environment}}))
	}
	if key, _ := lookup("DISPENSARY_CLINIC_KEY"); key != "" {
		given = append(given, WithClinicKey(NewSecret(key)))
	}
	return New(site, append(given, options...)...)
}

// siteFromEnv returns the chosen site, or the only one.
func siteFromEnv(lookup func(name string) (value string, ok bool)) (Site, error) {
	name, _ := lookup("DISPENSARY_ENVIRONMENT")
	if name != "" {
		environment, err := ParseEnvironment(name)
		if err != nil {
			return Site{}, &ArgumentError{Field: "DISPENSARY_ENVIRONMENT", Reason: "wants a region and a stage, like us/sandbox"}
		}
		return lookupSite(lookup, environment)
	}
	var configured []Environment
	for _, environment := range api.Environments() {
		baseName, authName := environment.Variables()
		base, _ := lookup(baseName)
		auth, _ := lookup(authName)
		if base+auth != "" {
			configured = append(configured, environment)
		}
	}
	switch len(configured) {
	case 0:
		return Site{}, &ArgumentError{Field: "DISPENSARY_US_SANDBOX_BASE_URL", Reason: "is not set, nor the address of another environment"}
	case 1:
		return lookupSite(lookup, configured[0])
	}
	return Site{}, &ArgumentError{Field: "DISPENSARY_ENVIRONMENT", Reason: "is not set, and the addresses of several environments are"}
}

// lookupSite returns the site of an environment, whose two variables must be set.
func lookupSite(lookup func(name string) (value string, ok bool), environment Environment) (Site, error) {
	site := Site{Environment: environment}
	baseName, authName := environment.Variables()
	if site.BaseURL, _ = lookup(baseName); site.BaseURL == "" {
		return Site{}, &ArgumentError{Field: baseName, Reason: "is not set"}
	}
	if site.AuthURL, _ = lookup(authName); site.AuthURL == "" {
		return Site{}, &ArgumentError{Field: authName, Reason: "is not set"}
	}
	return site, nil
}

// fixedToken is a token source that never changes.
type fixedToken struct{ token AccessToken }

func (f fixedToken) Token(context.Context) (AccessToken, error) { return f.token, nil }
