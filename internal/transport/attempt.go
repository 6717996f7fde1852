package transport

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
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
	asked, ok := retryAfter(s.last.header)
	if !ok || asked == 0 || s.last.status != http.StatusTooManyRequests || !s.call.Operation.NeedsToken() {
		return
	}
	asked = min(asked, maxThrottle)
	if !s.last.fromPlatform(s.call.Operation.Key) {
		asked = min(asked, s.client.config.Retry.MaxRetryAfter)
	}
	s.client.throttle.extend(asked)
	if pausing, ok := s.client.config.Limiter.(api.PausingLimiter); ok {
		pausing.Pause(asked)
	}
}

// startAttempt begins an attempt and returns the request to send.
func startAttempt(s *callState, request *http.Request) *http.Request {
	s.attempts++
	if s.attempts > 1 {
		s.attempt = &attemptContext{} // a transport may still use the previous one
		request = request.WithContext(s.attempt)
	}
	s.attempt.Context = s.observed.attemptStart(s.requestCtx, s.attempts, s.wait)
	s.wait = 0
	s.began = time.Now()
	if timeout := s.client.attemptTimeout; timeout > 0 {
		s.attempt.deadline = s.began.Add(timeout)
	}
	s.trace.reset()
	s.last.reset()
	return request
}

// readResponse reads the response to the attempt, once.
func readResponse(s *callState, response *http.Response) error {
	if s.last.tried {
		return s.last.readErr
	}
	limit := int64(maxBody)
	if !s.call.Operation.NeedsToken() {
		limit = maxSmallBody
	}
	err := s.last.read(response, limit)
	noteThrottle(s)
	return err
}

// endAttempt logs and reports the attempt that just ended. err is the reason if no complete
// response was received.
func endAttempt(ctx context.Context, s *callState, err error) {
	s.attempt.end()
	logAttempt(ctx, s, err)
	s.observed.attemptEnd(&s.last, time.Since(s.began), err)
}

// logAttempt logs the attempt that just ended. The record contains the route template and the
// request id, and never a URL, a query, a header or a body.
func logAttempt(ctx context.Context, s *callState, err error) {
	logger := s.client.config.Logger
	if logger == nil || !logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("operation", s.call.Operation.Name),
		slog.String("method", s.call.Operation.Method),
		slog.String("route", s.call.Operation.Route),
		slog.String("environment", s.client.config.Site.Environment.String()),
		slog.Int("attempt", s.attempts),
		slog.Duration("duration", time.Since(s.began)),
	}
	if s.last.status != 0 {
		attrs = append(attrs, slog.Int("status", s.last.status), slog.String("request_id", s.last.requestID()))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", publicCause(err).Error()))
	}
	logger.LogAttrs(ctx, slog.LevelDebug, "dispensary request", attrs...)
}

// attemptContext is the context of one attempt: the context of the call, with a deadline that
// includes the response body. It derives a context of package context when a transport first
// waits for it, so an attempt that a cache or a fake serves immediately starts no timer.
//
// It replaces http.Client.Timeout, which starts a goroutine for each attempt through a wrapped
// transport.
type attemptContext struct {
	context.Context           // of the call
	deadline        time.Time // zero for no deadline

	mu      sync.Mutex
	derived context.Context // nil until a transport waits
	cancel  context.CancelFunc
	ended   bool
}

// derive returns a context with three ends: the end of the call, the deadline and the end of
// the attempt.
func (c *attemptContext) derive() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil {
		if c.deadline.IsZero() {
			c.derived, c.cancel = context.WithCancel(c.Context)
		} else {
			c.derived, c.cancel = context.WithDeadline(c.Context, c.deadline)
		}
		if c.ended {
			c.cancel()
		}
	}
	return c.derived
}

// end cancels the context permanently.
func (c *attemptContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Done implements [context.Context].
func (c *attemptContext) Done() <-chan struct{} { return c.derive().Done() }

// Err implements [context.Context].
func (c *attemptContext) Err() error { return c.derive().Err() }

// Deadline implements [context.Context].
func (c *attemptContext) Deadline() (time.Time, bool) {
	deadline, ok := c.Context.Deadline()
	if c.deadline.IsZero() || ok && deadline.Before(c.deadline) {
		return deadline, ok
	}
	return c.deadline, true
}

// Value implements [context.Context]. Package context requests the derived context through it.
// The contexts that transports derive are then canceled without a goroutine.
func (c *attemptContext) Value(key any) any {
	c.mu.Lock()
	derived := c.derived
	c.mu.Unlock()
	if derived != nil {
		return derived.Value(key)
	}
	return c.Context.Value(key)
}
