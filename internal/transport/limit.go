package transport

import (
	"context"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

// waitForLimit waits until the platform accepts requests and the limiter allows one. Its
// failure is a localError and not a network failure, because the request was not sent.
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
		if s.client.throttled() == 0 || !s.call.Operation.NeedsToken() {
			return nil
		}
		// Another call got a 429 during the wait. The permission of the limiter is lost.
	}
}

// awaitThrottle waits until the platform accepts requests again. It waits at most as long as a
// retry would. Calls to the token endpoint do not wait, because that endpoint has other rules.
func awaitThrottle(ctx context.Context, s *callState) error {
	policy := s.client.config.Retry
	for s.call.Operation.NeedsToken() {
		left := s.client.throttled()
		if left == 0 {
			return nil
		}
		wait := left + jitter.N(policy.MinWait) // waiting calls should not all continue at once
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

// throttled returns the remaining time for which the platform has asked all calls to wait, as
// far as this client or another user of its limiter knows.
func (c *Client) throttled() time.Duration {
	left := c.throttle.left()
	if pausing, ok := c.config.Limiter.(api.PausingLimiter); ok {
		left = max(left, pausing.Paused())
	}
	return left
}

// noteThrottle pauses all calls after a 429 with Retry-After. If the response is not provably
// from the platform, it cannot make calls fail: they pause for at most MaxRetryAfter. Other
// headers about limits cause no pause.
func noteThrottle(s *callState) {
	asked, ok := retryAfter(s.answer.header)
	if !ok || asked == 0 || s.answer.status != http.StatusTooManyRequests || !s.call.Operation.NeedsToken() {
		return
	}
	asked = min(asked, maxThrottle)
	if !s.answer.fromPlatform(s.call.Operation.Key) {
		asked = min(asked, s.client.config.Retry.MaxRetryAfter)
	}
	s.client.throttle.extend(asked)
	if pausing, ok := s.client.config.Limiter.(api.PausingLimiter); ok {
		pausing.Pause(asked)
	}
}
