package api

import (
	"errors"
	"net"
	"net/url"
	"strings"
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
	err := ValidateURL(value)
	if err == nil {
		return nil
	}
	return &ArgumentError{
		Field: "Site." + field, Err: err,
		Reason: "of " + s.Environment.String() + " " + strings.TrimPrefix(err.Error(), "dispensary: "),
	}
}

// ValidateURL reports why an address must not be used to talk to the platform: it
// is not absolute, it is plain HTTP to anything but a loopback address
// ([ErrInsecure]), or it carries user information, a query or a fragment.
// The error never repeats the address.
func ValidateURL(raw string) error {
	if raw == "" {
		return errors.New("is empty")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("is not an absolute URL")
	case u.User != nil:
		return errors.New("must not carry user information")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must not carry a query or a fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return ErrInsecure
	}
	return errors.New("is not an https URL")
}

// isLoopback reports whether requests to a host stay on this machine. These
// are the hosts that [http.ProxyFromEnvironment] never sends to a proxy. It
// does so with other spellings of localhost.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
