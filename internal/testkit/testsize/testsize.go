// Package testsize selects the size of scalable tests, such as fleets of processes, kills and
// generated inputs. They check the same properties at every size. The small size suits every
// `go test`, and the full size also finds rare failures.
package testsize

import (
	"os"
	"testing"
)

// Variable is the environment variable that selects the full size if it is not empty.
const Variable = "DISPENSARY_TEST_FULL"

// Full reports whether tests run in full size.
func Full() bool { return os.Getenv(Variable) != "" }

// nightly is the environment variable with which all tests run, if it is not empty.
const nightly = "DISPENSARY_TEST_NIGHTLY"

// SkipByDay skips a slow test of a part that other tests cover too. It runs at night, and in full size.
func SkipByDay(t testing.TB) {
	t.Helper()
	if os.Getenv(nightly) == "" && !Full() {
		t.Skip("runs at night, with " + nightly)
	}
}

// Of returns full if [Full] is true, and small otherwise.
func Of[T any](small, full T) T {
	if Full() {
		return full
	}
	return small
}

// UnderRace returns its first argument if the race detector is enabled, and its second
// otherwise. The detector slows a test down many times.
func UnderRace[T any](race, otherwise T) T {
	if Race {
		return race
	}
	return otherwise
}

// SkipUnderRace skips a test if the race detector is enabled. Use it if the detector is
// expensive there and finds no race that other tests miss:
//
//   - the test makes one call at a time
//   - it starts processes
//   - it runs other tests on mutants
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("runs without the race detector")
	}
}
