// Package siteurl decides which URLs may receive secrets from this module.
package siteurl

import (
	"errors"
	"net"
	"net/url"
)

// ErrInsecure is the error for a plain HTTP URL whose host is not a loopback address. Package
// api exports it.
var ErrInsecure = errors.New("dispensary: must use HTTPS unless the host is a loopback address")

// Validate returns the reason why a URL must not be used for requests to the platform: it is
// not absolute, it is plain HTTP to a host other than a loopback address ([ErrInsecure]), or
// it has user information, a query or a fragment. The error never contains the URL.
func Validate(raw string) error {
	if raw == "" {
		return errors.New("is empty")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("is not an absolute URL")
	case u.User != nil:
		return errors.New("must not contain user information")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must not contain a query or a fragment")
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return ErrInsecure
	}
	return errors.New("is not an https URL")
}

// isLoopback reports whether requests to a host stay on this machine.
// [http.ProxyFromEnvironment] never sends requests to these hosts to a proxy, but it does so
// for other spellings of localhost.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
