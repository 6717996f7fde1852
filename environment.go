package dispensary

import (
	"errors"
	"os"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// NewFromEnv returns a client configured by environment variables. Options override the
// variables.
//
//	DISPENSARY_<REGION>_<STAGE>_BASE_URL  the site's URL, for example DISPENSARY_US_SANDBOX_BASE_URL
//	DISPENSARY_<REGION>_<STAGE>_AUTH_URL  optional: Site.AuthURL
//	DISPENSARY_ENVIRONMENT                the site, for example us/sandbox; needed only if several are set
//	DISPENSARY_ACCESS_TOKEN               optional: the bearer token to call with; it is not refreshed
//	DISPENSARY_CLINIC_KEY                 optional: the clinic's key, sent with every call
//
// The error names the missing or invalid variable. In a program with many users, call
// [Client.With] with [WithTokenSource] and a source of package oauth instead of setting a
// fixed token.
func NewFromEnv(options ...Option) (*Client, error) { return newFromEnv(os.LookupEnv, options) }

func newFromEnv(lookup func(name string) (value string, ok bool), options []Option) (*Client, error) {
	site, err := siteFromEnv(lookup)
	if err != nil {
		return nil, err
	}
	var given []Option
	if token, _ := lookup("DISPENSARY_ACCESS_TOKEN"); token != "" {
		given = append(given, named("DISPENSARY_ACCESS_TOKEN", token, WithAccessToken(token)))
	}
	if key, _ := lookup("DISPENSARY_CLINIC_KEY"); key != "" {
		given = append(given, named("DISPENSARY_CLINIC_KEY", key, WithClinicKey(NewSecret(key))))
	}
	return New(site, append(given, options...)...)
}

// named returns an option for the value of a variable. Its argument errors name the variable.
func named(variable, value string, option Option) Option {
	return func(c *config) error {
		if problem := environ.ValueProblem(value); problem != "" {
			return &api.ArgumentError{Field: variable, Reason: problem}
		}
		err := option(c)
		if argument, ok := errors.AsType[*api.ArgumentError](err); ok {
			return &api.ArgumentError{Field: variable, Reason: argument.Reason}
		}
		return err
	}
}

// siteFromEnv returns the site of DISPENSARY_ENVIRONMENT, or the only configured site.
func siteFromEnv(lookup func(name string) (value string, ok bool)) (Site, error) {
	name, _ := lookup("DISPENSARY_ENVIRONMENT")
	if name != "" {
		environment, err := api.ParseEnvironment(name)
		if err != nil {
			return Site{}, &api.ArgumentError{Field: "DISPENSARY_ENVIRONMENT", Reason: "must be a region and a stage, such as us/sandbox"}
		}
		return lookupSite(lookup, environment)
	}
	var configured []Environment
	for _, environment := range environ.Environments() {
		baseName, authName := environ.Variables(environment)
		base, _ := lookup(baseName)
		auth, _ := lookup(authName)
		if base+auth != "" {
			configured = append(configured, environment)
		}
	}
	switch len(configured) {
	case 0:
		return Site{}, &api.ArgumentError{Field: "DISPENSARY_US_SANDBOX_BASE_URL", Reason: "is not set, and no URL of another environment is set either"}
	case 1:
		return lookupSite(lookup, configured[0])
	}
	return Site{}, &api.ArgumentError{Field: "DISPENSARY_ENVIRONMENT", Reason: "must be set if several environments have URLs"}
}

// lookupSite returns the site of an environment. Its base URL must be set.
func lookupSite(lookup func(name string) (value string, ok bool), environment Environment) (Site, error) {
	baseName, authName := environ.Variables(environment)
	base, _ := lookup(baseName)
	if base == "" {
		return Site{}, &api.ArgumentError{Field: baseName, Reason: "is not set"}
	}
	site := environment.At(base)
	site.AuthURL, _ = lookup(authName)
	return site, nil
}
