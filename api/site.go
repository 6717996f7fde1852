package api

import (
	"errors"
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
