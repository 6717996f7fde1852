//go:build race

package watermillinbox_test

import "time"

// A receiver with the race detector needs seconds to start, and everything takes
// longer.
func init() { killEvents, lease = 500, 4*time.Second }
