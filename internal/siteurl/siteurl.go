// Package siteurl decides which URLs the module may send secrets to.
package siteurl

import (
	"errors"
	"net"
	"net/url"
)

// ErrInsecure is a plain HTTP URL of a host that is not a loopback address. Package api
// exports it.
var ErrInsecure = errors.New("dispensary: plain http is refused except to a loopback address")

// Validate reports why a URL must not be used to talk to the platform: it is not absolute,
// it is plain HTTP to any host but a loopback address ([ErrInsecure]), or it has user
// information, a query or a fragment. The error never repeats the URL.
func Validate(raw string) error {
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
