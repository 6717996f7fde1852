package transport

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionComesFromBuild(t *testing.T) {
	t.Parallel()
	const pseudo = "v0.2.1-0.20261125213000-abcdef123456+dirty"
	other := &debug.Module{Path: "example.com/ehr", Version: "v9.0.0"}
	command := debug.Module{Path: module + "/cmd/dispensary", Version: pseudo}
	for name, c := range map[string]struct {
		main debug.Module
		root *debug.Module
		want string
	}{
		"a dependency":            {*other, &debug.Module{Path: module, Version: "v0.2.0"}, "0.2.0"},
		"a fork":                  {*other, &debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.2.1"}}, "0.2.1"},
		"a folder":                {*other, &debug.Module{Path: module, Version: "v0.2.0", Replace: &debug.Module{Path: "../dispensary"}}, "devel"},
		"a workspace":             {*other, &debug.Module{Path: module, Version: "(devel)"}, "devel"},
		"the command":             {debug.Module{Path: command.Path, Version: "v0.2.0"}, &debug.Module{Path: module, Version: "v0.2.0"}, "0.2.0"},
		"the command in checkout": {command, &debug.Module{Path: module, Version: "(devel)"}, pseudo[1:]},
		"this module":             {debug.Module{Path: module, Version: "v0.2.0"}, other, "0.2.0"},
		"none":                    {debug.Module{Path: module, Version: "(devel)"}, other, "devel"},
	} {
		got := recordedVersion(&debug.BuildInfo{Main: c.main, Deps: []*debug.Module{other, c.root}})
		assert.Equal(t, c.want, got, name)
		assert.Regexp(t, "^[0-9A-Za-z.+-]+$", got, "a product version in User-Agent is a token (RFC 9110, section 5.6.2)")
	}
}
