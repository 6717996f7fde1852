package api

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/internal/siteurl"
)

// Site is an environment with its URLs. The platform gives the URLs to its integrators. This
// module contains none of them.
// API section: introduction ({base_url} and {auth_url}).
type Site struct {
	Environment Environment

	// BaseURL is the URL of the API, including the /api prefix, for example
	// https://platform.example/api. It must be HTTPS, unless the host is a loopback address.
	BaseURL string

	// AuthURL is the URL below which browsers open /oauth/authorize. Its host may differ from
	// the host of BaseURL. It must be HTTPS, unless the host is a loopback address. Package
	// oauth needs it. A client works with an empty one.
	AuthURL string
}

// Validate returns an [*ArgumentError] for each missing or invalid field, joined with
// [errors.Join]. AuthURL may be empty. Errors name the field but never repeat a URL, which may
// contain a password.
func (s Site) Validate() error {
	problems := []error{s.Environment.Validate(), s.validateURL("BaseURL", s.BaseURL)}
	if s.AuthURL != "" {
		problems = append(problems, s.validateURL("AuthURL", s.AuthURL))
	}
	return errors.Join(problems...)
}

func (s Site) validateURL(field, value string) error {
	err := siteurl.Validate(value)
	if err == nil {
		return nil
	}
	return &ArgumentError{
		Field: "Site." + field, Err: err,
		Reason: "of " + s.Environment.String() + " " + strings.TrimPrefix(err.Error(), "dispensary: "),
	}
}

// Environment is one of the platform's separate systems: a region combined with sandbox or
// production. Accounts, tokens and records of one environment do not exist in another. The
// zero value is no environment, and every function that needs one rejects it.
//
// Credentials and tokens store the environment that issued them. A client of another
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

// At returns the site of the environment with the base URL of its API and an empty
// [Site.AuthURL]. A client accepts this site, but package oauth needs the AuthURL.
func (e Environment) At(baseURL string) Site { return Site{Environment: e, BaseURL: baseURL} }

// IsSandbox reports whether the environment contains only test data.
func (e Environment) IsSandbox() bool { return e == USSandbox || e == CanadaSandbox }

// String returns a name such as "us/sandbox", or "none" for the zero value.
func (e Environment) String() string {
	if e == "" {
		return "none"
	}
	return string(e)
}

// ParseEnvironment reads a name that [Environment.String] returns, in upper or lower case.
func ParseEnvironment(s string) (Environment, error) {
	for _, e := range environments {
		if strings.EqualFold(s, string(e)) {
			return e, nil
		}
	}
	return "", fmt.Errorf("dispensary: unknown environment %q: use a region and a stage, such as us/sandbox", s)
}

// Validate returns an [*ArgumentError] if the environment does not exist.
func (e Environment) Validate() error {
	switch {
	case e == "":
		return &ArgumentError{Field: "Environment", Reason: "is empty"}
	case !slices.Contains(environments, e):
		return &ArgumentError{Field: "Environment", Reason: "is not a region and a stage, such as us/sandbox"}
	}
	return nil
}
