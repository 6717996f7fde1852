// Package catalogstoretest is the conformance suite of [catalogsync.Store]. A store that passes it
// keeps a copy of the catalog that programs may rely on.
//
//	func TestStore(t *testing.T) {
//		catalogstoretest.Run(t, func(t *testing.T) func() catalogsync.Store {
//			database := newDatabase(t) // empty, and gone after the test
//			return func() catalogsync.Store { return mystore.New(database.Connect()) }
//		})
//	}
//
// It plays what the interface promises, sentence by sentence, and then many callers at once.
// It is worth running under the race detector.
package catalogstoretest

import (
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync"
)

// Run plays the suite. Each test calls fresh for its own empty storage, and what fresh
// returns for every handle on it that it needs, such as another process has. Clean up with
// t.Cleanup. Tests run in parallel.
func Run(t *testing.T, fresh func(t *testing.T) func() catalogsync.Store) {
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
