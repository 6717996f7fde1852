// Package catalogstoretest tests the promises of a [catalogstore.Store], alone and with many
// callers at once.
package catalogstoretest

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// Run tests a store. Each test calls fresh for its own empty storage, and calls the result
// for each handle on this storage, such as another process has.
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
