package tokenstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestMemoryStoreDeletesOldFlows(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		store, claim := tokenstore.NewMemoryStore(), tokenstore.FlowClaim{Environment: oauthtest.USSandbox, Flow: "flow-1", Owner: "a"}
		result := func() string {
			result, err := store.ClaimFlow(t.Context(), claim, time.Minute)
			require.NoError(t, err)
			return result
		}
		assert.Empty(t, result())
		require.NoError(t, store.EndFlow(t.Context(), claim, "connected"))
		time.Sleep(defaults.FlowRetention)
		assert.Equal(t, "connected", result())
		time.Sleep(time.Hour)
		assert.Empty(t, result())
	})
}
