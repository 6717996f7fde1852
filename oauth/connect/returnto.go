package connect

import (
	"errors"
	"net/url"
	"strings"
)

// maxReturn keeps the cookie that carries a return address small.
const maxReturn = 1024

// errReturn is returned if the address to return to after connecting is not a path of this site.
var errReturn = errors.New("connect: the return address is not allowed")

// checkReturn accepts a path of the own site, such as "/patients?tab=2". Browsers, proxies and
// libraries disagree on unusual addresses, so it rejects them.
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

// plainPath is true of a decoded path that means the same to everyone: no empty
// segment that could begin a host, no dot segment, no backslash, no control
// character, nothing that was escaped twice.
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
