// Package storetest is the conformance suite of [tokens.Store]. A store that
// passes it may keep the tokens of all users for all replicas of a program.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) func() tokens.Store {
//			database := newDatabase(t) // empty, and gone after the test
//			return func() tokens.Store { return mystore.New(database.Connect()) }
//		})
//	}
//
// The suite plays what the interface promises, clause by clause, and then what
// happens to programs: many replicas at once, leases that run out, replicas that
// die with a lease in their hands, answers that get lost, users who disconnect
// in the middle of a refresh, and whole [tokens.Connections] replicas against a
// platform that does or does not rotate refresh tokens.
//
// It takes a few seconds, because leases are measured by the store's own clock,
// which no test can move. It is worth running under the race detector.
package storetest

import (
	"testing"

	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Run plays the suite. Each test calls fresh for its own empty storage, and
// what fresh returns for every replica that it needs. Clean up with t.Cleanup.
// Tests run in parallel.
func Run(t *testing.T, fresh func(t *testing.T) func() tokens.Store) {
	t.Helper()
	for _, section := range []map[string]func(*testing.T, opener){
		contract, keys, leases, flows, races, capabilities, replays,
	} {
		for name, play := range section {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				play(t, fresh(t))
			})
		}
	}
}
