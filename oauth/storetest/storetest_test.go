package storetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/storetest"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

func TestMemoryStorePassesConformanceSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) func() tokenstore.Store {
		store := tokenstore.NewMemoryStore()
		return func() tokenstore.Store { return store }
	})
}

// During a key rotation, each replica has its own key ring.
func TestSealedStorePassesConformanceSuite(t *testing.T) {
	t.Parallel()
	old, err := seal.GenerateKey("2026")
	require.NoError(t, err)
	young, err := seal.GenerateKey("2027")
	require.NoError(t, err)
	storetest.Run(t, func(t *testing.T) func() tokenstore.Store {
		inner, rings := tokenstore.NewMemoryStore(), [][]seal.Key{{young.Pending(), old}, {young, old}}
		var opened int
		return func() tokenstore.Store {
			ring, err := seal.NewKeyRing(rings[opened%len(rings)]...)
			require.NoError(t, err)
			opened++
			store, err := tokenstore.Sealed(inner, ring)
			require.NoError(t, err)
			return store
		}
	})
}
