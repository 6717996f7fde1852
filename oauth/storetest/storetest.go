// Package storetest is the conformance suite of [tokenstore.Store]. A store that passes the
// suite can store the tokens of all users for all replicas of a program.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) func() tokenstore.Store {
//			database := newDatabase(t) // empty, and removed after the test
//			return func() tokenstore.Store { return mystore.New(database.Connect()) }
//		})
//	}
//
// The suite tests each method of the interface and then whole programs: many replicas at once,
// leases that expire, replicas that crash with a lease, lost responses, and
// [tokens.Connections] on a platform that replaces refresh tokens.
//
// It takes a few seconds, because the store's own clock measures leases. Run it with the race
// detector too.
package storetest

import (
	"testing"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Run runs the suite, its tests in parallel. Each test calls fresh once for its own empty
// storage, and then calls the returned function once for each replica. If replicas cannot
// share storage, as in memory, that function returns the same store each time. Use t.Cleanup
// to clean up.
func Run(t *testing.T, fresh func(t *testing.T) func() tokenstore.Store) {
	t.Helper()
	for _, section := range []map[string]func(*testing.T, opener){
		contract, keys, leases, races, lists, claims, flows, clusters,
	} {
		for name, test := range section {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, fresh(t))
			})
		}
	}
}
