// Package jitter returns random waits. They keep replicas and callers that failed at the same
// time from retrying at the same time.
package jitter

import (
	"math/rand/v2"
	"time"
)

// N returns a random duration of at least 0 and less than n. It returns 0 if n is not
// positive.
func N(n time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	return rand.N(n)
}

// Backoff returns the wait after a number of failed tries. It doubles from first to last, and its
// second half is random.
func Backoff(tries int, first, last time.Duration) time.Duration {
	wait := min(first, last)
	for range tries - 1 {
		if wait > last/2 { // another doubling would exceed last, or the range of a duration
			wait = last
			break
		}
		wait *= 2
	}
	return wait/2 + N(wait/2+1)
}
