package webhook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// defaultAlarmAfter is when an [Alarm] reports an outage: early enough to look
// into it, and for the last time four hours before the platform switches the
// address off, which it does after 24.
// API section: "Webhooks" 8.
var defaultAlarmAfter = []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 20 * time.Hour}

// AlarmConfig is what an [Alarm] is made of. Notify is required.
type AlarmConfig struct {
	// Notify is called at each of the times of an outage that After names, and
	// once when it is over. It must return quickly.
	Notify func(context.Context, Outage)

	// After says at what age of an outage Notify is called; nil means after 15
	// minutes, 1, 4, 12 and 20 hours.
	After []time.Duration

	// MinFailures is how many failures in a row make an outage; 0 means 3. One
	// event that cannot be read, and nothing else all night, is none.
	MinFailures int

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Outage is a series of failures without a success.
type Outage struct {
	// Since is when the first of them was, and Last when the latest.
	Since, Last time.Time

	// Failures is how many there were.
	Failures int

	// Reason is the error of the latest.
	Reason error

	// Over reports that a delivery has been acknowledged again. Whatever was
	// given up meanwhile is in the platform's event lists: see package
	// reconcile.
	Over bool
}

// Age is how long there have been nothing but failures.
func (o Outage) Age() time.Duration { return o.Last.Sub(o.Since) }

// Alarm warns before the platform switches an address off: it counts failures
// that no success has broken, and their age. Give its Observe method to
// [Observer].RequestEnd, or call it there.
//
// What counts is what comes from the platform, as far as one can tell: requests
// that could not be stored, and refused requests that carry a signature header.
// Requests without one do not count, and neither do probes, which the
// platform may answer its own questions with while every event fails.
//
// An alarm sees what its process sees. Behind a balancer, give each process its
// own: a process that fails alone is worth an alarm too. A process that ends
// takes the count along; the platform's delivery log has the whole story.
type Alarm struct {
	config AlarmConfig

	mu        sync.Mutex
	outage    Outage
	notified  int // how many of config.After have passed
	pending   []Outage
	notifying bool // a request calls Notify with what is pending, one after the other
}

// NewAlarm returns an alarm. An error is an [*api.ArgumentError].
func NewAlarm(c AlarmConfig) (*Alarm, error) {
	switch {
	case c.Notify == nil:
		return nil, argumentError("AlarmConfig.Notify", "is missing")
	case c.MinFailures < 0:
		return nil, argumentError("AlarmConfig.MinFailures", "is negative")
	}
	if c.After == nil {
		c.After = defaultAlarmAfter
	}
	c.After = slices.Sorted(slices.Values(c.After))
	if len(c.After) == 0 || c.After[0] < 0 {
		return nil, argumentError("AlarmConfig.After", "is empty or holds a negative time")
	}
	c.MinFailures = cmp.Or(c.MinFailures, 3)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Alarm{config: c}, nil
}

// Observe counts a request. It is the RequestEnd of an [Observer].
func (a *Alarm) Observe(ctx context.Context, o Observation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case o.Outcome == OutcomeAccepted || o.Outcome == OutcomeDuplicate:
		a.succeeded()
	case isFailure(o):
		a.failed(o.Err)
	}
	if !a.notifying {
		a.notify(ctx)
	}
}

// notify calls Notify with what is pending, in the order in which it happened: that an outage
// is over never comes before its warning. Nothing waits for a Notify of another request.
func (a *Alarm) notify(ctx context.Context) {
	a.notifying = true
	defer func() { a.notifying = false }()
	for len(a.pending) > 0 {
		next := a.pending[0]
		a.pending = a.pending[1:]
		func() {
			a.mu.Unlock()
			defer a.mu.Lock()
			a.config.Notify(ctx, next)
		}()
	}
}

// Outage returns the outage of the moment, for a health check; false if there is
// none, or not yet one that counts.
func (a *Alarm) Outage() (Outage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.outage, a.outage.Failures >= a.config.MinFailures
}

func (a *Alarm) succeeded() {
	if a.notified > 0 {
		over := a.outage
		over.Over = true
		a.pending = append(a.pending, over)
	}
	a.outage, a.notified = Outage{}, 0
}

func (a *Alarm) failed(reason error) {
	now := a.config.Now()
	if a.outage.Failures == 0 {
		a.outage.Since = now
	}
	a.outage.Failures++
	a.outage.Last, a.outage.Reason = now, reason
	passed := 0
	for passed < len(a.config.After) && a.outage.Age() >= a.config.After[passed] {
		passed++
	}
	if passed <= a.notified || a.outage.Failures < a.config.MinFailures {
		return
	}
	a.notified = passed
	a.pending = append(a.pending, a.outage)
}

// fromPlatform are refusals of requests that look like the platform's.
var fromPlatform = []error{
	ErrSignatureMalformed, ErrSignatureMismatch, ErrTimestampTooOld, ErrTimestampTooNew, ErrBodyConsumed,
	ErrBodyTooLarge, ErrBodyUnreadable, events.ErrMalformed, events.ErrNoEvent,
}

func isFailure(o Observation) bool {
	if o.Outcome == OutcomeUnavailable {
		return true
	}
	return o.Outcome == OutcomeRefused && slices.ContainsFunc(fromPlatform, func(err error) bool { return errors.Is(o.Err, err) })
}
