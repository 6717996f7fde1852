package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain runs the tests with less frequent garbage collection. A schedule leaves little garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
