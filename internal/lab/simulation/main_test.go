package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often: a schedule leaves little behind.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
