package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/internal/jitter"
)

// waitForLimit waits until the platform takes requests and the limiter allows one. Its
// failure is kept apart from the network's: what waited was not sent.
func waitForLimit(ctx context.Context, s *callState) error {
	limiter, throttle := s.client.config.Limiter, s.client.throttle
	if limiter == nil && throttle.left() == 0 {
		return nil
	}
	defer s.observed.limited(time.Now())
	for {
		if err := awaitThrottle(ctx, s); err != nil {
			return &localError{cause: err, limiter: true}
		}
		if limiter == nil {
			return nil
		}
		if err := limiter.Wait(ctx); err != nil {
			return &localError{cause: err, limiter: true}
		}
		if throttle.left() == 0 || !s.call.Operation.NeedsToken() {
			return nil
		}
		// Another call got a 429 while this one waited; what the limiter allowed is lost.
	}
}

// awaitThrottle waits until the platform takes requests again, no longer than a retry
// would. Calls to the token endpoint do not wait: they have their own rules.
func awaitThrottle(ctx context.Context, s *callState) error {
	policy := s.client.config.Retry
	for s.call.Operation.NeedsToken() {
		left := s.client.throttle.left()
		if left == 0 {
			return nil
		}
		wait := left + jitter.N(policy.MinWait) // calls that were held together should not all come at once
		deadline, has := ctx.Deadline()
		if left > policy.MaxRetryAfter || has && time.Until(deadline) <= wait {
			return &throttledError{left}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return nil
}

// noteThrottle looks for an answer that asks all calls to wait.
func noteThrottle(s *callState, response *http.Response) {
	if response.StatusCode != http.StatusTooManyRequests || !s.call.Operation.NeedsToken() {
		return
	}
	if asked, ok := retryAfter(response.Header); ok {
		s.client.throttle.extend(asked)
	}
}
