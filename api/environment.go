package api

import (
	"fmt"
	"slices"
	"strings"
)

// Environment is one of the platform's separate worlds: a region at a stage. Accounts,
// tokens and records of one environment do not exist in another. The zero value is no
// environment, and every function that needs one rejects it.
//
// Credentials and tokens carry the environment that issued them. A client of another
// environment rejects them with [ErrWrongEnvironment] and sends nothing.
// API section: "What the service does", environments.
type Environment string

// The environments of the platform.
const (
	USSandbox        Environment = "us/sandbox"    // United States, test data
	USProduction     Environment = "us/production" // United States, live data
	CanadaSandbox    Environment = "ca/sandbox"    // Canada, test data
	CanadaProduction Environment = "ca/production" // Canada, live data
)

var environments = []Environment{USProduction, CanadaProduction, USSandbox, CanadaSandbox}

// At returns the site of the environment whose API has the base URL, without an
// [Site.AuthURL]: enough for a client, but not for package oauth.
func (e Environment) At(baseURL string) Site { return Site{Environment: e, BaseURL: baseURL} }

// IsSandbox reports whether the environment has test data only.
func (e Environment) IsSandbox() bool { return e == USSandbox || e == CanadaSandbox }

// String returns region and stage as "us/sandbox", or "none" for the zero value.
func (e Environment) String() string {
	if e == "" {
		return "none"
	}
	return string(e)
}

// ParseEnvironment reads the form that [Environment.String] writes, in any case.
func ParseEnvironment(s string) (Environment, error) {
	for _, e := range environments {
		if strings.EqualFold(s, string(e)) {
			return e, nil
		}
	}
	return "", fmt.Errorf("dispensary: %q is no environment: want a region and a stage, like us/sandbox", s)
}

// Validate reports an environment that the platform does not have, with an
// [*ArgumentError].
func (e Environment) Validate() error {
	switch {
	case e == "":
		return &ArgumentError{Field: "Environment", Reason: "is missing: no environment given"}
	case !slices.Contains(environments, e):
		return &ArgumentError{Field: "Environment", Reason: "is not a region and a stage, like us/sandbox"}
	}
	return nil
}
