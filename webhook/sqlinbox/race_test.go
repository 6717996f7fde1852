//go:build race

package sqlinbox_test

// A receiver with the race detector needs seconds to start.
func init() { killEvents = 500 }
