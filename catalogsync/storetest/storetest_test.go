package storetest_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/storetest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) func() catalogsync.Store {
		store := catalogsync.NewMemoryStore()
		return func() catalogsync.Store { return store }
	})
}
