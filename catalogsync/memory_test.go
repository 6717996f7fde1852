package catalogsync_test

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogstoretest"
)

func TestMemoryStoreConforms(t *testing.T) {
	t.Parallel()
	catalogstoretest.Run(t, func(*testing.T) func() catalogstore.Store {
		store := catalogsync.NewMemoryStore()
		return func() catalogstore.Store { return store }
	})
}
