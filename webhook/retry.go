package webhook

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/jitter"
)

// Defaults of a [RetryPolicy]. Together they try for about ten hours, so that a
// fault of the evening is over before the first event of the night is given up.
const (
	DefaultMaxAttempts = 25
	DefaultBackOff     = time.Second
	DefaultMaxBackOff  = time.Hour
)

// RetryPolicy says how often an event is tried, and how long it waits in
// between. The zero value is the default.
type RetryPolicy struct {
	// MaxAttempts is how often an event is tried before it becomes a dead
	// letter; 0 means [DefaultMaxAttempts].
	MaxAttempts int

	// BackOff is the wait after the first failed attempt, 0 meaning
	// [DefaultBackOff]. It doubles with every further one up to MaxBackOff, 0
	// meaning [DefaultMaxBackOff]. Each wait is shortened at random by up to a
	// half, so that events that failed together do not come back together.
	BackOff, MaxBackOff time.Duration
}

func (p RetryPolicy) withDefaults() (RetryPolicy, error) {
	if p.MaxAttempts < 0 || p.BackOff < 0 || p.MaxBackOff < 0 {
		return p, argumentError("RetryPolicy", "holds a negative number")
	}
	p.MaxAttempts = cmp.Or(p.MaxAttempts, DefaultMaxAttempts)
	p.BackOff = cmp.Or(p.BackOff, DefaultBackOff)
	p.MaxBackOff = cmp.Or(p.MaxBackOff, DefaultMaxBackOff)
	return p, nil
}

// Wait returns the time until the attempt after the given one, which counts from 1.
// Zero fields wait for nothing: see [Work.WithDefaults].
func (p RetryPolicy) Wait(attempt int) time.Duration {
	d := p.BackOff
	for i := 1; i < attempt && d < p.MaxBackOff; i++ {
		d *= 2
	}
	d = min(d, p.MaxBackOff)
	return d - jitter.N(d/2+1)
}

// Permanent marks an error that no further attempt can help: the event becomes a
// dead letter at once. A nil error stays nil.
//
// Logs and dead letters show the reason of the error, not its text: see [Attempt.Reason].
// Set it with [WithReason], or use an error type with a telling name:
//
//	return webhook.Permanent(webhook.WithReason("no_chart", err))
//
// Events whose body or data cannot be decoded need no mark: their errors are
// permanent by nature. Operators can replay them once the program understands them.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports an error that no further attempt can help.
func IsPermanent(err error) bool {
	var marked *permanentError
	var data *events.DataError
	return errors.As(err, &marked) || errors.As(err, &data) ||
		errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrNoEvent)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
