// Package testsize says how large the tests are that may be of any size: fleets of
// processes, kills, generated inputs. They hold the same at every size. Small, they
// belong into every `go test`; in full size they also find what happens rarely.
package testsize

import (
	"os"
	"testing"
)

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

// UnderRace returns its first argument under the race detector, which makes a test cost many
// times as much, and its second otherwise.
func UnderRace[T any](race, otherwise T) T {
	if Race {
		return race
	}
	return otherwise
}

// SkipUnderRace skips a test in which the race detector costs much and finds nothing that
// it would not find in others: a test that makes one call at a time, that starts processes,
// or that runs other tests with mistakes for them to find.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("runs without the race detector")
	}
}
