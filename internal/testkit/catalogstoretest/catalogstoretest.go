// Package catalogstoretest is the conformance suite for implementations of
// [catalogstore.Store]. It tests every method, alone and with several concurrent callers.
package catalogstoretest

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// Run tests a store. Each test calls fresh once for its own empty storage. It calls the
// returned function for each handle on this storage, as another process would open one.
func Run(t *testing.T, fresh func(t *testing.T) func() catalogstore.Store) {
	t.Helper()
	for _, section := range []map[string]func(*testing.T, opener){walks, products, requests, changes, races} {
		for name, play := range section {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, fresh(t))
			})
		}
	}
}
