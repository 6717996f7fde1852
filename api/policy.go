package api

import (
	"context"
	"time"
)

// RetryPolicy limits the retries of a client. Zero fields mean the defaults. The choice of
// calls to retry is not configurable: see the documentation of the root package.
type RetryPolicy struct {
	// MaxAttempts is the largest number of attempts, including the first. 1 disables retries.
	// The default is 4.
	MaxAttempts int

	// MinWait and MaxWait are the shortest and the longest wait before a retry. The wait
	// doubles with each retry and is jittered. The defaults are 250 ms and 8 s.
	MinWait, MaxWait time.Duration

	// MaxRetryAfter is the longest Retry-After that a call waits for. A longer one fails the
	// call at once. The default is 1 minute.
	//
	// A 429 with Retry-After pauses all calls of the client and of its views, because the limit
	// applies to the whole application. A paused call waits until the time has passed. It fails
	// at once with an error that matches [ErrRateLimited] and [ErrNotSent] if the rest of the
	// pause exceeds MaxRetryAfter or the caller's deadline. If a 429 lacks proof that the
	// platform wrote it, the pause is at most MaxRetryAfter.
	//
	// The pause needs no [Limiter] and applies without retries too. Separate clients share it
	// through a [PausingLimiter]. Calls to the token endpoint do not wait.
	MaxRetryAfter time.Duration
}

// Limiter delays each attempt of a request until it may be sent. Wait returns an error if ctx
// ends, or would end, before that. The request then fails without being sent. *rate.Limiter of
// golang.org/x/time/rate implements Limiter.
type Limiter interface {
	Wait(ctx context.Context) error
}
