// Package enginetest is the conformance suite for implementations of [engine.Engine].
//
// [Run] tests the claims of a [Storage] and the rest of the contract. It skips a test if the
// storage lacks the required claim or hook. The engine must also implement [reconcile.Inbox],
// and the suite tests its checkpoints. It tests the method Reseal if the storage has
// OpenSealed.
//
// The suite retries after milliseconds, with its own [webhook.RetryPolicy]. It depends on no
// duration, except that Storage.Patience limits each wait.
package enginetest

import "testing"

// Run runs the suite. It calls create once for each test.
func Run(t *testing.T, create func(*testing.T) Storage) {
	t.Helper()
	for section, tests := range map[string]map[string]func(*harness){
		"Accept": accepting, "Attempts": attempts, "DeadLetters": deadLetters, "List": listing,
		"Order": ordering, "Stale": staleness, "Stats": statistics, "Close": closing, "Crash": crashes,
		"Transaction": transactions, "Sealed": sealing, "Checkpoint": reconciling(),
	} {
		t.Run(section, func(t *testing.T) {
			t.Parallel()
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					r := newHarness(t, create(t))
					r.need(r.storage.Ordered || section != "Order" && section != "Stale", "Ordered")
					test(r)
				})
			}
		})
	}
}
