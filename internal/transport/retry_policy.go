package transport

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
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

// backoff returns the wait after an attempt that brought no Retry-After.
func backoff(policy api.RetryPolicy, attempts int) time.Duration {
	wait := policy.MaxWait
	if doublings := attempts - 1; doublings < 32 && policy.MinWait<<doublings < wait {
		wait = policy.MinWait << doublings
	}
	return wait/2 + jitter.N(wait/2)
}

// retryAfter reads both forms of the header: seconds and an HTTP date.
func retryAfter(header http.Header) (time.Duration, bool) {
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

// isPermanent is true of failures that the next attempt would meet again.
func isPermanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, errTooLarge)
}
