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

// Directory holds the sites an integrator works with. Fill it once, with
// [NewDirectory] or [DirectoryFromEnviron].
//
// Its methods are Site and Sites; see [api.Directory].
type Directory = api.Directory

// NewDirectory returns a directory of the given sites. It fails on an invalid
// site and on two sites of one environment.
func NewDirectory(sites ...Site) (*Directory, error) { return api.NewDirectory(sites...) }

// DirectoryFromEnviron reads the sites from environment variables through lookup,
// usually [os.LookupEnv]. They are named DISPENSARY_<REGION>_<STAGE>_BASE_URL and
// …_AUTH_URL, for example DISPENSARY_US_SANDBOX_BASE_URL. An environment with
// neither is left out; one with a single variable of the two is an error.
func DirectoryFromEnviron(lookup func(name string) (value string, ok bool)) (*Directory, error) {
	return api.DirectoryFromEnviron(lookup)
}

// ParseEnvironment reads the form that [Environment.String] writes: "us/sandbox".
func ParseEnvironment(s string) (Environment, error) { return api.ParseEnvironment(s) }

// NewFromEnv returns a client that environment variables describe; options come
// after them and win.
//
//	DISPENSARY_<REGION>_<STAGE>_BASE_URL  addresses of a site, for example
//	DISPENSARY_<REGION>_<STAGE>_AUTH_URL  DISPENSARY_US_SANDBOX_BASE_URL: see [DirectoryFromEnviron]
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

func siteFromEnv(lookup func(name string) (value string, ok bool)) (Site, error) {
	directory, err := DirectoryFromEnviron(lookup)
	if err != nil {
		return Site{}, err
	}
	if name, _ := lookup("DISPENSARY_ENVIRONMENT"); name != "" {
		environment, err := ParseEnvironment(name)
		if err != nil {
			return Site{}, &ArgumentError{Field: "DISPENSARY_ENVIRONMENT", Reason: "wants a region and a stage, like us/sandbox"}
		}
		return directory.Site(environment)
	}
	switch sites := directory.Sites(); len(sites) {
	case 0:
		return Site{}, &ArgumentError{Field: "DISPENSARY_US_SANDBOX_BASE_URL", Reason: "is not set, nor the address of another environment"}
	case 1:
		return sites[0], nil
	}
	return Site{}, &ArgumentError{Field: "DISPENSARY_ENVIRONMENT", Reason: "is not set, and the addresses of several environments are"}
}

// fixedToken is a token source that never changes.
type fixedToken struct{ token AccessToken }

func (f fixedToken) Token(context.Context) (AccessToken, error) { return f.token, nil }
