// Package testsize says how large the tests are that may be of any size: fleets of
// processes, kills, generated inputs. They hold the same at every size. Small, they
// belong into every `go test`; in full size they also find what happens rarely.
package testsize

import "os"

// Variable is the environment variable that makes such tests as large as they were
// written for; any text but none does.
const Variable = "DISPENSARY_TEST_FULL"

// Full reports that the tests are to be large.
func Full() bool { return os.Getenv(Variable) != "" }

// Of returns the size that is asked for.
func Of[T any](small, full T) T {
	if Full() {
		return full
	}
	return small
}
