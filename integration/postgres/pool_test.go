package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPoolBoundsPingOfIdleConnections(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]time.Duration{
		"postgres://ehr@127.0.0.1:1/ehr":                      2 * time.Second,
		"postgres://ehr@127.0.0.1:1/ehr?pool_ping_timeout=5s": 5 * time.Second,
	} {
		pool, err := newPool(t.Context(), address, 1)
		require.NoError(t, err)
		assert.Equal(t, want, pool.Config().PingTimeout, address)
		pool.Close()
	}
}
