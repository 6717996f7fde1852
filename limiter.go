package dispensary

import (
	"time"

	"github.com/dispensary-go/dispensary/ratelimit"
)

// RateLimiter keeps a process below a number of requests in any period of a given
// length, exactly: however the requests are spread, no such period sees more of
// them. Bursts up to the limit pass without delay where a person waits for them;
// background work is spread over the period and leaves room for people, see
// [api.Priority].
//
// The platform is assumed to allow 5,000 requests in any five minutes; it does
// not document its limit. Where it answers 429 all the same and names a time, the
// client waits, with a limiter and without; see [RetryPolicy].
//
// Several processes share a limit with a ratelimit.Fleet.
//
// Its methods are Wait, Left, Pause and Paused; see [ratelimit.Limiter].
type RateLimiter = ratelimit.Limiter

// NewRateLimiter returns a limiter of requests in any period of per. It keeps 16
// bytes a request.
func NewRateLimiter(requests int, per time.Duration) (*RateLimiter, error) {
	return ratelimit.New(requests, per)
}
