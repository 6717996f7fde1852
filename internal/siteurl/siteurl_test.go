package siteurl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/siteurl"
)

// Go sends requests to other spellings of localhost through a proxy.
func TestPlainHTTPNeedsHostThatSkipsProxies(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost", "localhost:8080", "127.0.0.1", "127.9.9.9:80", "[::1]:8080", "[::ffff:127.0.0.1]"} {
		require.NoError(t, siteurl.Validate("http://"+host), host)
	}
	for _, host := range []string{"LOCALHOST", "localhost.", "ehr.localhost", "127.1", "0.0.0.0", "[::]", "10.0.0.1", "127.0.0.1.example", "platform.example"} {
		require.ErrorIs(t, siteurl.Validate("http://"+host), siteurl.ErrInsecure, host)
	}
}
