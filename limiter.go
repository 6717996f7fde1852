package dispensary

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RateLimiter keeps a client below a number of requests in any period of a given
// length, exactly: however the requests are spread, no such period sees more of
// them. Bursts up to the limit pass without delay.
//
// The platform is assumed to allow 5,000 requests in any five minutes; it does
// not document its limit. Where it answers 429 all the same and names a time, the
// client waits, with a limiter and without; see [RetryPolicy].
type RateLimiter struct {
	per time.Duration

	mu     sync.Mutex
	starts []time.Time // when each of the last len(starts) requests may start
	next   int         // the oldest of them
}

// NewRateLimiter returns a limiter of requests in any period of per. It keeps 24
// bytes a request.
func NewRateLimiter(requests int, per time.Duration) (*RateLimiter, error) {
	if requests < 1 || per <= 0 {
		return nil, &ArgumentError{Field: "NewRateLimiter", Reason: fmt.Sprintf("wants at least one request in a positive period, not %d in %s", requests, per)}
	}
	return &RateLimiter{per: per, starts: make([]time.Time, requests)}, nil
}

// errRateBeyondDeadline is returned where the wait would outlast the deadline.
var errRateBeyondDeadline = errors.New("dispensary: the rate limit allows no request before the deadline")

// Wait returns when the caller may send one request. It fails at once where ctx
// would end first, and then takes nothing from the limit. A wait that is
// cancelled has used its place in the limit.
func (l *RateLimiter) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait, err := l.reserve(ctx)
	if err != nil || wait <= 0 {
		return err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve takes the next place: one period after the request that is the limit's number
// of requests before it.
func (l *RateLimiter) reserve(ctx context.Context) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	start := now
	if oldest := l.starts[l.next]; !oldest.IsZero() && oldest.Add(l.per).After(now) {
		start = oldest.Add(l.per)
	}
	if deadline, ok := ctx.Deadline(); ok && start.After(deadline) {
		return 0, errRateBeyondDeadline
	}
	l.starts[l.next] = start
	l.next = (l.next + 1) % len(l.starts)
	return start.Sub(now), nil
}
