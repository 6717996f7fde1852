package transport

import (
	"crypto/tls"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

// withDefaults replaces the zero fields of a policy with their defaults.
func withDefaults(p api.RetryPolicy) (api.RetryPolicy, error) {
	if p.MaxAttempts < 0 || p.MinWait < 0 || p.MaxWait < 0 || p.MaxRetryAfter < 0 {
		return p, &api.ArgumentError{Field: "RetryPolicy", Reason: "must not contain negative values"}
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

// backoff returns the wait after an attempt without a Retry-After.
func backoff(policy api.RetryPolicy, attempts int) time.Duration {
	wait := policy.MaxWait
	if doublings := attempts - 1; doublings < 32 && policy.MinWait<<doublings < wait {
		wait = policy.MinWait << doublings
	}
	return wait/2 + jitter.N(wait/2)
}

// maxRetryAfter is the maximum result of retryAfter. A longer wait means the same to every
// caller: do not retry soon.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the wait requested by a response, at most maxRetryAfter. It reads both
// forms of the header: seconds with any number of digits, and an HTTP date. It rounds a
// fraction of a second up, because some proxies write one.
func retryAfter(header http.Header) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if strings.Trim(value, "0123456789.") == "" && !errors.Is(err, strconv.ErrSyntax) { // infinite if out of range
		return time.Duration(math.Ceil(min(seconds, maxRetryAfter.Seconds()))) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(until(date, header), maxRetryAfter), true
}

// until returns the time from a response until date, at least 0. It counts from now if the
// response has no Date.
func until(date time.Time, header http.Header) time.Duration {
	now, ok := ResponseTime(header)
	if !ok {
		now = time.Now()
	}
	return max(date.Sub(now), 0)
}

// ResponseTime returns the time of a response by the clock of the server, from its Date
// header. Compare every time in the response with it, because the local clock may be wrong. It
// returns false if the response has no valid Date.
func ResponseTime(header http.Header) (time.Time, bool) {
	value := header.Get("Date")
	if value == "" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(value)
	return date, err == nil
}

// isPermanent reports whether the next attempt would fail the same way.
func isPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	proxy := proxyFailure(err)
	return errors.As(err, &certificate) || errors.Is(err, errTooLarge) || proxy != nil && proxy.permanent()
}
