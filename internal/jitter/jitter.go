// Package jitter draws the random part of waits, which keeps replicas and callers that
// failed together from coming back together.
//
// Tests that replay a schedule of many goroutines need the same waits each time. Nothing
// but [FollowClock] is there for them, and programs do not call it.
package jitter

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// N returns a random duration from 0 up to n and without n; 0 if n is not positive.
func N(n time.Duration) time.Duration {
	switch {
	case n <= 0:
		return 0
	case followsClock.Load():
		return fromClock(time.Now(), n)
	}
	return rand.N(n)
}

var followsClock atomic.Bool

// FollowClock makes everything that is drawn in this process a function of the time: on
// the clock of a synctest bubble, whose time is the same in every run, the waits are the same
// too, in whatever order goroutines ask.
func FollowClock() { followsClock.Store(true) }

// fromClock spreads the nanoseconds with the finalizer of SplitMix64.
func fromClock(now time.Time, n time.Duration) time.Duration {
	x := uint64(now.UnixNano()) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(n))
}
