//go:build race

package riverinbox_test

// A receiver with the race detector needs seconds to start.
func init() { killEvents = 500 }
