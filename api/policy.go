package api

import (
	"context"
	"time"
)

// RetryPolicy bounds the retries of a client. Zero fields mean the defaults.
// Which calls are retried at all is not configurable: see the documentation of
// the root package.
type RetryPolicy struct {
	// MaxAttempts counts the first attempt too; 1 never retries. Default 4.
	MaxAttempts int

	// MinWait and MaxWait bound the wait before a retry, which doubles from one
	// to the other and is jittered. Defaults 250 ms and 8 s.
	MinWait, MaxWait time.Duration

	// MaxRetryAfter is the longest Retry-After that is waited for; a longer one
	// ends the call at once. Default 1 minute.
	//
	// A 429 with Retry-After holds back not only the call that got it but every
	// call of the client and of all its views, because the limit is the
	// application's: they wait until the time has passed, and fail at once with an
	// error that matches [ErrRateLimited] and [ErrNotSent] while more than
	// MaxRetryAfter is left, or more than the caller's deadline allows. A 429 that is not
	// provably the platform's holds them back for MaxRetryAfter at most. This needs
	// no [Limiter], and is the same without retries. Separate clients wait together
	// if they share a [PausingLimiter]. Calls to the token endpoint do not wait.
	MaxRetryAfter time.Duration
}

// Limiter delays each attempt of a request until it may be sent. Wait returns an
// error if ctx ends, or would end, before that; the request then fails unsent.
// *rate.Limiter of golang.org/x/time/rate is one.
type Limiter interface {
	Wait(ctx context.Context) error
}
