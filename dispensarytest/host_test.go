package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A page in a browser whose name was made to resolve to this machine reads and changes
// nothing.
func TestForeignHostNames(t *testing.T) {
	t.Parallel()
	b := start(t)
	for host, status := range map[string]int{
		"evil.example:80": 403, "localhost.evil.example": 403, "127.0.0.1.nip.io": 403,
		"localhost:1": 200, "LOCALHOST": 200, "127.0.0.1": 200, "[::1]:80": 200,
	} {
		for _, path := range []string{"/clinic", "/../openapi.yaml"} {
			req := b.request("GET", path)
			req.Host = host
			req.Header.Set("Authorization", "Bearer "+b.token)
			resp, err := b.plain().Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
			assert.Equal(t, status == 403, resp.StatusCode == 403, "%s %s", host, path)
		}
	}
}
