package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

// sendWithRetries is the innermost link. It sends the request until the retry policy stops it,
// and stores the last response in s. It returns an error if it received no complete response.
func sendWithRetries(ctx context.Context, s *callState, _ step) error {
	s.last.reset()
	if err := waitForLimit(ctx, s); err != nil {
		return err
	}
	defer func() { s.attempt.end() }()
	r := retriers.Get().(*retrier)
	err := r.send(ctx, s)
	retriers.Put(r) // not after a panic, which may have interrupted a hook
	return err
}

// retrier runs go-retryablehttp for one call at a time. The order of an attempt is
//
//	start → (net/http) → check → read → check → back off → prepare the next
//
// It is reused, because binding its hooks costs more than a call with them.
type retrier struct {
	client  retryablehttp.Client
	request retryablehttp.Request

	ctx context.Context // of the call
	s   *callState

	idle http.Request // the target of request between calls
}

var retriers = sync.Pool{New: func() any { return newRetrier() }}

func newRetrier() *retrier {
	r := &retrier{}
	r.client.RequestLogHook = r.start
	r.client.CheckRetry = r.check
	r.client.Backoff = r.backOff
	r.client.PrepareRetry = r.prepareNext
	r.client.ErrorHandler = func(r *http.Response, err error, _ int) (*http.Response, error) { return r, err }
	r.request.SetResponseHandler(r.read)
	return r
}

func (r *retrier) send(ctx context.Context, s *callState) error {
	r.ctx, r.s, r.request.Request = ctx, s, s.request
	r.client.HTTPClient, r.client.RetryMax = s.client.http, s.client.config.Retry.MaxAttempts-1
	var body any // an untyped nil means no body
	if s.built.body != nil {
		body = s.built.body
	}
	if err := r.request.SetBody(body); err != nil {
		return s.call.invalid("body", "cannot be sent")
	}
	response, err := r.client.Do(&r.request)
	if response != nil {
		_ = response.Body.Close() // already read or abandoned
	}
	r.forget()
	return err
}

// forget removes all data of the call, because a body may contain patient data. It leaves the
// call's request alone, because a transport may still read it.
func (r *retrier) forget() {
	r.ctx, r.s, r.client.HTTPClient, r.request.Request = nil, nil, nil, &r.idle
	_ = r.request.SetBody(nil)
}

func (r *retrier) start(retryablehttp.Logger, *http.Request, int) {
	r.request.Request = startAttempt(r.s, r.request.Request)
}

func (r *retrier) read(response *http.Response) error { return readResponse(r.s, response) }

// check decides whether to repeat the attempt. It is called once with the response or the
// error. If that is final, it is called again after the body was read.
func (r *retrier) check(_ context.Context, response *http.Response, err error) (bool, error) {
	ctx, s := r.ctx, r.s
	if s.last.tried && err == nil {
		endAttempt(ctx, s, nil)
		return false, nil
	}
	if err != nil {
		endAttempt(ctx, s, err)
	}
	if err == nil && !s.call.Operation.Read() && response.StatusCode == http.StatusTooManyRequests {
		_ = readResponse(s, response) // the body shows whether the platform wrote it
	}
	policy := s.client.config.Retry
	if ctx.Err() != nil || s.settings.NoRetries || s.attempts >= policy.MaxAttempts || !isRetryable(s, response, err) {
		return false, nil
	}
	wait, ok := waitBefore(s, response, err)
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= wait {
		ok = false // the wait would end after the caller's deadline
	}
	if !ok {
		return false, nil
	}
	if err == nil {
		// The error must contain the last response even if the caller cancels during the wait.
		_ = readResponse(s, response)
		endAttempt(ctx, s, nil)
	}
	s.wait = wait
	r.request.Request = r.request.WithContext(s.requestCtx).Request // the context of the attempt has ended
	return true, nil
}

func (r *retrier) backOff(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return r.s.wait }

func (r *retrier) prepareNext(request *http.Request) error {
	request.Header = headerForRetry(request.Header)
	return waitForLimit(r.ctx, r.s)
}

// isRetryable contains the rules. A read is repeated if the network, the rate limit or the
// server failed. A write is repeated only if it was provably not sent, or if the platform
// provably rejected it and stated when to repeat it; see [lastResponse.fromPlatform].
func isRetryable(s *callState, response *http.Response, err error) bool {
	read := s.call.Operation.Read()
	if err != nil {
		return !isPermanent(err) && (read || unsent(err, &s.trace))
	}
	if status := response.StatusCode; read {
		return status == http.StatusTooManyRequests || (status >= 500 && status != http.StatusNotImplemented)
	}
	return s.last.rejectedForNow()
}

// waitBefore returns the wait before the next attempt. It returns false if the platform asks
// for a longer wait than the policy allows.
func waitBefore(s *callState, response *http.Response, err error) (time.Duration, bool) {
	policy := s.client.config.Retry
	if err == nil {
		if asked, ok := retryAfter(response.Header); ok {
			// Callers with the same Retry-After should not all continue at once.
			return asked + jitter.N(policy.MinWait), asked <= policy.MaxRetryAfter
		}
	}
	return jitter.Backoff(s.attempts, policy.MinWait, policy.MaxWait), true
}

// isPermanent reports whether the next attempt would fail the same way.
func isPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	proxy := proxyFailure(err)
	return errors.As(err, &certificate) || errors.Is(err, errTooLarge) || proxy != nil && proxy.permanent()
}

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
