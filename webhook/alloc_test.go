//go:build !race

// With the race detector, a sync.Pool drops values at random.

package webhook_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/api"
	"github.com/stretchr/testify/require"
)

// TestVerifyDoesNotAllocate counts allocations, so it does not run in parallel.
func TestVerifyDoesNotAllocate(t *testing.T) {
	body, header := []byte(benchBody), sign(secret, now, benchBody)
	v := newVerifier(t, now, api.NewSecret(oldSecret), api.NewSecret(secret))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = v.Verify(header, body) }))
}
