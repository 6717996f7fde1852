package dispensary

import "github.com/dispensary-go/dispensary/api"

// Region is the country a platform account belongs to: [US] or [Canada].
// Accounts, tokens and records of one region do not exist in the other.
type Region = api.Region

// The regions of the platform.
const (
	US     = api.US     // United States
	Canada = api.Canada // Canada
)

// Stage tells live data from test data: [Production] or [Sandbox].
type Stage = api.Stage

// The stages of the platform.
const (
	Production = api.Production // live data
	Sandbox    = api.Sandbox    // test data
)

// Environment is one of the platform's separate worlds: a region at a stage. It
// is comparable. Tokens are bound to the environment that issued them, and a
// client of another one refuses them before anything is sent.
type Environment = api.Environment

// Site is an environment with its two addresses: that of the API, and that of
// the authorization page, whose host may differ.
type Site = api.Site

// Directory holds the sites an integrator works with. Fill it once, with
// [NewDirectory] or [DirectoryFromEnviron].
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
