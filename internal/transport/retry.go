package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

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
