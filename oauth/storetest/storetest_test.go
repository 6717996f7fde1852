package storetest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/storetest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) func() tokens.Store {
		store := tokens.NewMemoryStore()
		return func() tokens.Store { return store }
	})
}

// Replicas seal with their own key rings, as they do while keys change.
func TestSealedMemoryStore(t *testing.T) {
	t.Parallel()
	old, err := seal.GenerateKey("2026")
	require.NoError(t, err)
	young, err := seal.GenerateKey("2027")
	require.NoError(t, err)
	storetest.Run(t, func(t *testing.T) func() tokens.Store {
		inner, rings := tokens.NewMemoryStore(), [][]seal.Key{{young.Pending(), old}, {young, old}}
		var opened int
		return func() tokens.Store {
			ring, err := seal.NewKeyRing(rings[opened%len(rings)]...)
			require.NoError(t, err)
			opened++
			store, err := tokens.Sealed(inner, ring)
			require.NoError(t, err)
			return store
		}
	})
}
