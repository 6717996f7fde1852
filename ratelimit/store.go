package ratelimit

import "time"

// Window is a number of starts, at least 1, in any period of a length.
type Window struct {
	Starts int
	Per    time.Duration
}
