package api

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// Site is an environment with its two addresses. The platform publishes the
// addresses to its integrators; this module knows none of them.
// API section: introduction ({base_url} and {auth_url}).
type Site struct {
	Environment Environment

	// BaseURL is the address of the API, the /api prefix included, for
	// example https://platform.example/api. HTTPS, unless the host is a
	// loopback address.
	BaseURL string

	// AuthURL is the browser-facing address of which /oauth/authorize is a
	// page. Its host may differ from that of BaseURL. HTTPS, unless the
	// host is a loopback address.
	AuthURL string
}

// Validate reports all that is missing or unusable, each with an [*ArgumentError]. It
// names the field and never repeats an address, which may hold a password.
func (s Site) Validate() error {
	problems := []error{s.Environment.Validate()}
	for _, address := range []struct{ field, url string }{{"BaseURL", s.BaseURL}, {"AuthURL", s.AuthURL}} {
		if err := ValidateURL(address.url); err != nil {
			problems = append(problems, &ArgumentError{
				Field: "Site." + address.field, Err: err,
				Reason: "of " + s.Environment.String() + " " + strings.TrimPrefix(err.Error(), "dispensary: "),
			})
		}
	}
	return errors.Join(problems...)
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

// Variables returns the names of the environment variables with the addresses of this
// environment: DISPENSARY_US_SANDBOX_BASE_URL and DISPENSARY_US_SANDBOX_AUTH_URL for the
// sandbox of the United States.
func (e Environment) Variables() (baseURL, authURL string) {
	prefix := strings.ToUpper("DISPENSARY_" + string(e.Region) + "_" + string(e.Stage))
	return prefix + "_BASE_URL", prefix + "_AUTH_URL"
}
