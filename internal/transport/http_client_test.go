package transport

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// replaceDefaultTransport replaces http.DefaultTransport for the test, which must not be
// parallel.
func replaceDefaultTransport(t *testing.T, transport http.RoundTripper) {
	standard := http.DefaultTransport
	http.DefaultTransport = transport
	t.Cleanup(func() { http.DefaultTransport = standard })
}

func TestClientUsesReplacedDefaultTransport(t *testing.T) {
	replaced := says(200, `{"patient":{"id":"p1"}}`)
	replaceDefaultTransport(t, replaced)
	require.NoError(t, get(t.Context(), newTestClient(t, nil)))
	require.NoError(t, get(t.Context(), newTestClient(t, nil, func(c *Config) { c.HTTPClient = nil })))
	assert.EqualValues(t, 2, replaced.calls.Load())
}

func TestPoolKeepsSettingsOfDefaultTransport(t *testing.T) {
	standard := &http.Transport{MaxConnsPerHost: 7}
	replaceDefaultTransport(t, standard)
	pool := newPool().(*http.Transport)
	assert.NotSame(t, standard, pool)
	assert.Equal(t, 7, pool.MaxConnsPerHost)
}
