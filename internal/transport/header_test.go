package transport

import (
	"bytes"
	"net/http"
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
