package transport

import (
	"bytes"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRequestIDIsPrintableAndShort(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                             "",
		"7f3c-a b":                     "7f3c-a b",
		"a\x1b[2J\u009b\x7f":           "a?[2J???",
		"a\u202eb\xff":                 "a???b?",
		strings.Repeat("z", 100_000):   strings.Repeat("z", 128),
		strings.Repeat("é", 100_000):   strings.Repeat("?", 128),
		strings.Repeat("z", 127) + "é": strings.Repeat("z", 127) + "?",
	} {
		assert.Equal(t, want, RequestID(http.Header{"X-Request-Id": {given}}))
	}
}

func TestRequestIDCannotFloodErrorsAndLogs(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	client := newTestClient(t, says(404, "{}", "X-Request-Id", "\u009b2J"+strings.Repeat("z", 100_000)), func(c *Config) { c.Logger = logTo(&logged) })
	failure := failureOf(t, get(t.Context(), client))
	for _, text := range append(texts(failure), logged.String(), failure.RequestID) {
		assert.Less(t, len(text), 1000)
		assert.NotContains(t, text, "\u009b")
	}
	assert.False(t, failure.Untrusted)
}

func FuzzRequestID(f *testing.F) {
	f.Add("7f3c")
	f.Add("\u009b\xff")
	f.Fuzz(func(t *testing.T, given string) {
		got := RequestID(http.Header{"X-Request-Id": {given}})
		assert.LessOrEqual(t, len(got), maxRequestID)
		assert.Equal(t, given == "", got == "")
		for _, r := range got {
			assert.True(t, r >= ' ' && r <= '~')
		}
	})
}

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
