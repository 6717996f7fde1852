// Package jitter returns random waits. They keep replicas and callers that failed at the same
// time from retrying at the same time.
//
// Tests that replay a schedule of many goroutines need the same waits in each run.
// [FollowClock] is for these tests only. Programs do not call it.
package jitter

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// N returns a random duration of at least 0 and less than n. It returns 0 if n is not
// positive.
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

// FollowClock makes all waits of this process depend on the current time only. In a synctest
// bubble the time is the same in every run, so the waits are the same too, in any order of the
// goroutines.
func FollowClock() { followsClock.Store(true) }

// fromClock hashes the nanoseconds with the finalizer of SplitMix64.
func fromClock(now time.Time, n time.Duration) time.Duration {
	x := uint64(now.UnixNano()) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return time.Duration((x ^ x>>31) % uint64(n))
}
