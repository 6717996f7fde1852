package connect

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// maxReturn keeps the cookie that carries a return address small.
const maxReturn = 1024

// ErrReturn says that the address to return to after connecting is not a path of
// this site, nor below an allowed origin. See [Config.ReturnOrigins].
var ErrReturn = errors.New("connect: the return address is not allowed")

// checkReturn accepts a path of the own site ("/patients?tab=2") and absolute
// addresses of allowed origins. Browsers, proxies and libraries disagree on
// what anything unusual means, so that anything unusual is refused.
func checkReturn(address string, origins []string) error {
	if address == "" || len(address) > maxReturn || strings.ContainsFunc(address, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '\\'
	}) {
		return ErrReturn
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.User != nil || !plainPath(u.Path) {
		return ErrReturn
	}
	if u.Scheme == "" && u.Host == "" && strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") {
		return nil
	}
	if u.Host != "" && slices.Contains(origins, strings.ToLower(u.Scheme+"://"+u.Host)) {
		return nil
	}
	return ErrReturn
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

// checkOrigin reports what prevents a text from being an origin.
func checkOrigin(origin string) string {
	u, err := url.Parse(origin)
	switch {
	case err != nil || u.Path != "" || origin != strings.ToLower(origin):
		return "must hold origins such as https://ehr.example, in lower case and without a path"
	case api.ValidateURL(origin) != nil:
		return "must hold https origins"
	}
	return ""
}
