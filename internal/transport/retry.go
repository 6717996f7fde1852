package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// withDefaults fills in what a policy leaves zero.
func withDefaults(p api.RetryPolicy) (api.RetryPolicy, error) {
	if p.MaxAttempts < 0 || p.MinWait < 0 || p.MaxWait < 0 || p.MaxRetryAfter < 0 {
		return p, &api.ArgumentError{Field: "RetryPolicy", Reason: "must not hold negative values"}
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = 4
	}
	if p.MinWait == 0 {
		p.MinWait = 250 * time.Millisecond
	}
	if p.MaxWait == 0 {
		p.MaxWait = max(8*time.Second, p.MinWait)
	}
	if p.MaxRetryAfter == 0 {
		p.MaxRetryAfter = time.Minute
	}
	if p.MaxWait < p.MinWait {
		return p, &api.ArgumentError{Field: "RetryPolicy.MaxWait", Reason: "is shorter than MinWait"}
	}
	return p, nil
}

// checkRetry decides whether the attempt is made again. It is called once with
// what came back and, where that is final, once more after the body was read.
func (x *exchange) checkRetry(ctx context.Context, response *http.Response, err error) (bool, error) {
	policy := x.client.config.Retry
	if x.read && err == nil {
		x.ended(ctx, nil)
		return false, nil
	}
	if err != nil {
		x.ended(ctx, err)
	}
	if err == nil && !x.call.Operation.Read() && response.StatusCode == http.StatusServiceUnavailable {
		_ = x.readAnswer(response) // who refused is told by the body
	}
	if ctx.Err() != nil || x.settings.NoRetries || x.attempts >= policy.MaxAttempts || !x.retryable(response, err) {
		return false, nil
	}
	wait, ok := x.waitBefore(response, err)
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) <= wait {
		ok = false // the wait would end after the caller has gone
	}
	if !ok {
		return false, nil
	}
	if err == nil {
		// Kept for a caller who leaves during the wait: the last answer is
		// always what the error tells.
		_ = x.readAnswer(response)
		x.ended(ctx, nil)
	}
	x.wait = wait
	return true, nil
}

func (x *exchange) backoff(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return x.wait }

// retryable holds the rules: a read is repeated when the network, the rate
// limit or the server failed; a write only when it was provably not sent, or
// when it was refused for now and told until when.
func (x *exchange) retryable(response *http.Response, err error) bool {
	read := x.call.Operation.Read()
	if err != nil {
		return !permanent(err) && (read || x.unsent(err))
	}
	switch status := response.StatusCode; {
	case read:
		return status == http.StatusTooManyRequests || (status >= 500 && status != http.StatusNotImplemented)
	default:
		x.status, x.header = status, response.Header
		return x.refusedForNow()
	}
}

// refusedForNow is an answer of "not done, come back later". A rate limit is
// counted before anything is done, whoever counts. Unavailable is what a gateway
// says too when the platform behind it has begun and not answered: it is taken as
// a refusal from the platform itself only.
func (x *exchange) refusedForNow() bool {
	if x.header.Get("Retry-After") == "" {
		return false
	}
	switch x.status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return x.read && writtenByPlatform(x.body.Bytes())
	}
	return false
}

// permanent is true of failures that the next attempt would meet again.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, errTooLarge)
}

// waitBefore returns how long to wait before the next attempt, and false where
// the platform asks for a longer wait than the policy allows.
func (x *exchange) waitBefore(response *http.Response, err error) (time.Duration, bool) {
	policy := x.client.config.Retry
	if err == nil {
		if asked, ok := parseRetryAfter(response.Header); ok {
			if asked > policy.MaxRetryAfter {
				return 0, false
			}
			// Callers who were told the same time should not all come at once.
			return asked + jitter(policy.MinWait), true
		}
	}
	wait := policy.MaxWait
	if doublings := x.attempts - 1; doublings < 32 && policy.MinWait<<doublings < wait {
		wait = policy.MinWait << doublings
	}
	return wait/2 + jitter(wait/2), true
}

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// parseRetryAfter reads both forms of the header: seconds and an HTTP date.
func parseRetryAfter(header http.Header) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		const most = int64(1<<63-1) / int64(time.Second)
		return time.Duration(min(max(seconds, 0), most)) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(time.Until(date), 0), true
	}
	return 0, false
}

// outcome says what became of the call. A read that was sent has none: it
// changes nothing. A server error is no refusal, whether it is the platform's,
// which may have done a part, or a gateway's, which does not know; nor is "see
// other", which names the outcome of something done.
func (x *exchange) outcome(err error) api.Outcome {
	switch {
	case x.status == 0 && x.unsent(err):
		return api.OutcomeNotSent
	case x.call.Operation.Read():
		return api.OutcomeNone
	case x.status == http.StatusSeeOther:
		return api.OutcomeMaybeApplied
	case x.status >= 300 && x.status < 500, x.refusedForNow():
		return api.OutcomeRefused
	}
	return api.OutcomeMaybeApplied
}
