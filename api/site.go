package api

import (
	"errors"
	"strings"

	"github.com/dispensary-go/dispensary/internal/siteurl"
)

// Site is an environment with its URLs. The platform publishes the URLs to its
// integrators, and this module knows none of them.
// API section: introduction ({base_url} and {auth_url}).
type Site struct {
	Environment Environment

	// BaseURL is the URL of the API, the /api prefix included, for example
	// https://platform.example/api. It is HTTPS, unless the host is a loopback address.
	BaseURL string

	// AuthURL is the URL below which browsers open /oauth/authorize. Its host may differ
	// from the host of BaseURL. It is HTTPS, unless the host is a loopback address. Package
	// oauth needs it. A client does not, and accepts an empty one.
	AuthURL string
}

// Validate reports every field that is missing or unusable, each with an [*ArgumentError].
// AuthURL may be empty. Errors name the field and never repeat a URL, which may contain a
// password.
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
