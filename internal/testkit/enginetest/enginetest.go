// Package enginetest tests the promises of an [engine.Engine].
//
// [Run] tests the claims of a [Storage] and the rest of the contract. It skips a test that
// needs a claim or a hook that the storage lacks. An engine that is a [reconcile.Inbox] is
// tested as one, and its method Reseal is tested if the storage has OpenSealed.
//
// The suite retries after milliseconds, by its own [webhook.RetryPolicy], and depends on no
// duration, except that Storage.Patience bounds each wait.
package enginetest

import "testing"

// Run runs the suite. It calls create for every test in it.
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
