package transport

import (
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/dispensary-go/dispensary"

// Version returns the version of this module in the running program, such as "0.1.0", or
// "devel" if the build recorded none.
var Version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return recordedVersion(info)
	}
	return "devel"
})

// recordedVersion prefers this module among the dependencies. A program of this repository
// built in a checkout has no such dependency, but Go gives its main module the version of the
// commit.
func recordedVersion(info *debug.BuildInfo) string {
	for _, m := range append(info.Deps[:len(info.Deps):len(info.Deps)], &info.Main) {
		if m.Path != module && (m != &info.Main || !strings.HasPrefix(m.Path, module+"/")) {
			continue
		}
		if m.Replace != nil {
			m = m.Replace // a folder has no version
		}
		if number, ok := strings.CutPrefix(m.Version, "v"); ok {
			return number
		}
	}
	return "devel"
}

// userAgent returns the User-Agent header of every request, including requests to the token
// endpoint. Firewalls block requests without one.
func userAgent(product string) string {
	return strings.TrimSpace(product + " dispensary-go/" + Version())
}
