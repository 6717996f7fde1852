package webhook

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

// Defaults of a [RetryPolicy]. Together they retry for about ten hours.
const (
	defaultMaxAttempts = 25
	defaultBackOff     = time.Second
	defaultMaxBackOff  = time.Hour
)

// RetryPolicy is the policy for failed events. The zero value is the default.
type RetryPolicy struct {
	// MaxAttempts is the number of attempts until an event becomes a dead letter. 0 means 25.
	MaxAttempts int

	// BackOff is the wait after the first failed attempt. It doubles after each failure up to
	// MaxBackOff. 0 means 1 second for BackOff and 1 hour for MaxBackOff. Each wait is shortened
	// at random by up to a half, so that events do not retry together.
	BackOff, MaxBackOff time.Duration
}

func (p RetryPolicy) withDefaults() (RetryPolicy, error) {
	if p.MaxAttempts < 0 || p.BackOff < 0 || p.MaxBackOff < 0 {
		return p, argumentError("RetryPolicy", "contains a negative value")
	}
	p.MaxAttempts = cmp.Or(p.MaxAttempts, defaultMaxAttempts)
	p.BackOff = cmp.Or(p.BackOff, defaultBackOff)
	p.MaxBackOff = cmp.Or(p.MaxBackOff, defaultMaxBackOff)
	return p, nil
}

// Wait returns the wait after an attempt. Attempts count from 1. Wait does not apply the defaults:
// see [Work.WithDefaults].
func (p RetryPolicy) Wait(attempt int) time.Duration {
	d := p.BackOff
	for i := 1; i < attempt && d < p.MaxBackOff; i++ {
		d *= 2
	}
	d = min(d, p.MaxBackOff)
	return d - jitter.N(d/2+1)
}

// Permanent marks an error that no retry can fix, so the event becomes a dead letter immediately.
// A nil error stays nil.
//
// Logs and dead letters show the reason of the error, not its text: see [Attempt.Reason].
// Set it with [WithReason], or use an error type with a telling name:
//
//	return webhook.Permanent(webhook.WithReason("no_chart", err))
//
// Decoding errors of a body or its data are permanent without this mark, and so is an
// [*api.EnsureError] with [api.EnsureReasonAltered].
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is permanent, so that no retry can fix it. See [Permanent].
func IsPermanent(err error) bool {
	var marked *permanentError
	var data *events.DataError
	var ensure *api.EnsureError
	if errors.As(err, &ensure) && ensure != nil && ensure.Reason == api.EnsureReasonAltered {
		return true // a retry in another process would create another record
	}
	return errors.As(err, &marked) || errors.As(err, &data) ||
		errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrNoEvent)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
