package connect

import (
	"errors"
	"net/url"
	"strings"
)

// maxReturn is the largest return address in bytes. The cookie contains it, so it must be
// small.
const maxReturn = 1024

// errReturn means that the return address is not a plain path of this site.
var errReturn = errors.New("connect: the return address is not allowed")

// checkReturn accepts a path of your own site, such as "/patients?tab=2". It rejects unusual
// addresses, because browsers, proxies and libraries disagree on them.
func checkReturn(address string) error {
	if address == "" || len(address) > maxReturn || strings.ContainsFunc(address, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '\\'
	}) {
		return errReturn
	}
	u, err := url.Parse(address)
	if err != nil || u.Host != "" || !plainPath(u.Path) || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, "//") {
		return errReturn
	}
	return nil
}

// plainPath reports whether a decoded path is unambiguous. It has no empty segment that could
// start a host, no dot segment, no backslash, no control character and no double escape.
func plainPath(path string) bool {
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' || r == '%' }) {
		return false
	}
	for i, segment := range strings.Split(path, "/") {
		if segment == "." || segment == ".." || (segment == "" && i > 0 && i < strings.Count(path, "/")) {
			return false
		}
	}
	return true
}
