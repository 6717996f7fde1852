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

// defaultAlarmAfter contains the default ages of an outage at which an [Alarm] reports it. The
// first leave time to investigate. The last is 4 hours before the platform disables the endpoint,
// after 24 hours of failures.
// API section: "Webhooks" 8.
var defaultAlarmAfter = []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 20 * time.Hour}

// Bounds of an outage of kind [OutageKindRejecting] without the platform's delivery log.
// Anybody can send requests that the program rejects, but a scanner does not send one per hour
// and does not know the form of a signature.
const (
	sustainedAge    = 12 * time.Hour
	sustainedSigned = 12        // rejected requests with a well-formed signature header
	sustainedGap    = time.Hour // between rejected requests without a signature header
)

const (
	confirmTimeout = 30 * time.Second
	confirmPause   = 5 * time.Minute // between two calls of Confirm
)

// AlarmConfig configures an [Alarm]. Notify is required.
type AlarmConfig struct {
	// Notify is called at the ages of an outage in After, and once when the outage is
	// over. Calls do not overlap. It may take long if a [Handler] calls Observe, because
	// the response has been sent.
	Notify func(context.Context, Outage)

	// Confirm reports whether the platform could not deliver events since Outage.Since.
	// See its delivery log: API section "Webhooks" 9. Confirm is called for an outage of
	// kind [OutageKindRejecting], at most once for each age in After and every 5
	// minutes, and must return within 30 seconds. False ends the outage. With an error,
	// and if Confirm is nil, the alarm decides by the requests alone: see [Alarm].
	Confirm func(context.Context, Outage) (bool, error)

	// After contains the ages of an outage at which Notify is called. Nil means 15
	// minutes and 1, 4, 12 and 20 hours.
	After []time.Duration

	// MinFailures is the smallest number of failures in an outage. 0 means 3: one
	// unreadable event in a quiet night is not an outage.
	MinFailures int

	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// OutageKind is the kind of failures in an [Outage].
type OutageKind string

// The kinds of outages.
const (
	// OutageKindFailing: the program cannot accept events, because the inbox or the
	// lookup of the tenant fails, or because a correctly signed body is not an event.
	OutageKindFailing OutageKind = "failing"

	// OutageKindRejecting: the program rejects all requests, probably including the platform's.
	// The usual causes are a wrong secret, a wrong clock, a renamed path, an unknown tenant, or a
	// proxy that removes the signature header.
	OutageKindRejecting OutageKind = "rejecting"
)

// Outage is a series of failures of one kind without a success.
type Outage struct {
	Kind OutageKind

	// Since is the time of the first failure, and Last the time of the latest.
	Since, Last time.Time

	// Failures is the number of failures. With [OutageKindRejecting] it includes the
	// requests of strangers.
	Failures int

	// Reason is the error of the latest failure.
	Reason error

	// Over reports whether a delivery has been acknowledged again. The platform's event lists
	// contain all undelivered events: see package reconcile.
	Over bool
}

// Age returns the time from the first failure to the latest.
func (o Outage) Age() time.Duration { return o.Last.Sub(o.Since) }

// Alarm warns before the platform disables an endpoint. It counts failures in a row and
// their age. Set [Observer].RequestEnd to its Observe method, or call Observe there.
//
// A failure to accept an event counts immediately. So does a correctly signed body without an
// event.
//
// A rejected request does not count immediately, because anybody can send one. Rejected
// requests are an outage if AlarmConfig.Confirm confirms it. Without Confirm, they are an
// outage after 12 hours without an accepted event, if at least 12 requests had a
// well-formed signature header, or if requests without the header came at least once per
// hour. Without Confirm, a malformed header never counts, because the platform does not
// send one. Probes and methods other than POST never count.
//
// An alarm sees only the requests of its process. Behind a load balancer, create one in each
// process, so that it also reports if a single process fails. The counts end with the process.
// The platform's delivery log contains all attempts.
type Alarm struct {
	config AlarmConfig

	mu        sync.Mutex
	failing   series
	rejecting rejections
	asked     time.Time // of the last call of Confirm
	pending   []notice
	notifying bool // a goroutine in Observe processes pending
}

// series is a series of failures, which may become an outage.
type series struct {
	outage   Outage
	passed   int // number of ages in AlarmConfig.After with a call of Notify
	notified bool
}

// rejections is a series of rejected requests.
type rejections struct {
	series
	confirmed bool
	asked     int  // number of ages in AlarmConfig.After with a call of Confirm
	decides   bool // Confirm is nil or failed, so the requests decide

	signed      int // requests with a well-formed signature header
	signedSince time.Time
	steadySince time.Time // no gap between plausible requests is longer than sustainedGap
	steadyLast  time.Time
}

// notice is a call of Notify, after Confirm if ask is set.
type notice struct {
	outage Outage
	ask    bool
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
		return nil, argumentError("AlarmConfig.After", "is empty or contains a negative duration")
	}
	c.MinFailures = cmp.Or(c.MinFailures, 3)
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Alarm{config: c}, nil
}

// Observe counts a request. Use it as the RequestEnd of an [Observer]. It calls Confirm and
// Notify before it returns. If another call of Observe is already doing so, that call makes these
// calls too.
func (a *Alarm) Observe(ctx context.Context, o Observation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch e := evidenceOf(o); e {
	case delivered:
		a.over(&a.failing)
		a.over(&a.rejecting.series)
		a.failing, a.rejecting = series{}, rejections{}
	case failed:
		a.failed(o.Err)
		if o.Key.EventID != "" && !a.rejecting.confirmed { // its signature was accepted
			a.rejecting = rejections{}
		}
	case unproven, unsigned, malformedHeader:
		a.rejected(e, o.Err)
	}
	if !a.notifying {
		a.notify(ctx)
	}
}

// Outage returns the current outage for a health check. The bool is false if there is no outage,
// or if it does not count yet: see [Alarm]. An outage of kind [OutageKindRejecting] may consist of
// requests of strangers until it counts.
func (a *Alarm) Outage() (Outage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	failing, rejecting := a.failing.outage, a.rejecting.outage
	counts := failing.Failures >= a.config.MinFailures
	if a.rejecting.confirmed && (!counts || rejecting.Since.Before(failing.Since)) {
		return rejecting, true
	}
	if failing.Failures == 0 {
		return rejecting, false
	}
	return failing, counts
}

// over adds the end of an outage to pending, if Notify was called for the outage.
func (a *Alarm) over(s *series) {
	if s.notified {
		over := s.outage
		over.Over = true
		a.pending = append(a.pending, notice{outage: over})
	}
}

// failed counts a failure to accept an event.
func (a *Alarm) failed(reason error) {
	if passed := a.count(&a.failing, OutageKindFailing, reason); passed > a.failing.passed {
		a.failing.passed, a.failing.notified = passed, true
		a.pending = append(a.pending, notice{outage: a.failing.outage})
	}
}

// rejected counts a rejected request, possibly of the platform.
func (a *Alarm) rejected(e evidence, reason error) {
	r := &a.rejecting
	if r.outage.Failures == 0 {
		r.decides = a.config.Confirm == nil
	}
	if a.config.Confirm == nil && e == malformedHeader {
		return
	}
	passed := a.count(&r.series, OutageKindRejecting, reason)
	r.confirmed = r.confirmed || r.sustained(e) && r.decides
	switch {
	case r.confirmed && passed > r.passed:
		r.passed, r.notified = passed, true
		a.pending = append(a.pending, notice{outage: r.outage})
	case !r.confirmed && a.config.Confirm != nil && passed > r.asked && r.outage.Last.Sub(a.asked) >= confirmPause:
		r.asked, a.asked = passed, r.outage.Last
		a.pending = append(a.pending, notice{outage: r.outage, ask: true})
	}
}

// count adds a failure to s. It returns the number of ages in After that the outage has
// reached, or 0 if it has too few failures.
func (a *Alarm) count(s *series, kind OutageKind, reason error) int {
	now := a.config.Now()
	if s.outage.Failures == 0 {
		s.outage.Kind, s.outage.Since = kind, now
	}
	s.outage.Failures++
	s.outage.Last, s.outage.Reason = now, reason
	passed := 0
	for passed < len(a.config.After) && s.outage.Age() >= a.config.After[passed] {
		passed++
	}
	if s.outage.Failures < a.config.MinFailures {
		return 0
	}
	return passed
}

// sustained counts the latest request. It reports whether the series is an outage by the
// requests alone.
func (r *rejections) sustained(e evidence) bool {
	now := r.outage.Last
	if e == malformedHeader {
		return false
	}
	if r.steadySince.IsZero() || now.Sub(r.steadyLast) > sustainedGap {
		r.steadySince = now
	}
	r.steadyLast = now
	if e == unproven {
		if r.signed == 0 {
			r.signedSince = now
		}
		r.signed++
	}
	return now.Sub(r.steadySince) >= sustainedAge ||
		r.signed >= sustainedSigned && now.Sub(r.signedSince) >= sustainedAge
}

// notify processes pending in order, so that the end of an outage is never reported before its
// warning. Observe does not wait for a Notify of another request.
func (a *Alarm) notify(ctx context.Context) {
	a.notifying = true
	defer func() { a.notifying = false }()
	for len(a.pending) > 0 {
		next := a.pending[0]
		a.pending = a.pending[1:]
		if next.ask && !a.confirm(ctx, next.outage) {
			continue
		}
		a.unlocked(func() { a.config.Notify(ctx, next.outage) })
	}
}

// confirm calls Confirm. It reports whether the outage is confirmed and still continues.
func (a *Alarm) confirm(ctx context.Context, o Outage) bool {
	var confirmed bool
	var err error
	a.unlocked(func() {
		ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		confirmed, err = a.config.Confirm(ctx, o)
	})
	r := &a.rejecting
	switch {
	case r.outage.Failures == 0 || !r.outage.Since.Equal(o.Since):
		return false // an event was accepted meanwhile
	case err != nil:
		r.decides = true
		return false
	case !confirmed: // the requests were not the platform's
		*r = rejections{}
		return false
	}
	r.confirmed, r.notified, r.passed = true, true, max(r.passed, r.asked)
	return true
}

// unlocked calls f without the lock.
func (a *Alarm) unlocked(f func()) {
	a.mu.Unlock()
	defer a.mu.Lock()
	f()
}

// evidence is the evidence of one request about the platform's deliveries.
type evidence int

const (
	unrelated       evidence = iota
	delivered                // an event was accepted
	failed                   // an event could not be accepted
	unproven                 // rejected, with a well-formed signature header
	unsigned                 // rejected, without a signature header
	malformedHeader          // rejected, with a malformed signature header
)

// unprovenErrors are the errors of rejected requests with a well-formed signature header.
var unprovenErrors = []error{
	ErrSignatureMismatch, ErrTimestampTooOld, ErrTimestampTooNew, ErrUnknownTenant, ErrUnknownPath,
	ErrBodyConsumed, ErrBodyTooLarge, ErrBodyUnreadable,
}

func evidenceOf(o Observation) evidence {
	is := func(err error) bool { return errors.Is(o.Err, err) }
	switch {
	case o.Outcome == OutcomeAccepted || o.Outcome == OutcomeDuplicate:
		return delivered
	case o.Outcome == OutcomeUnavailable:
		return failed
	case o.Outcome != OutcomeRefused || is(ErrMethod) || is(errUnsignedProbe):
		return unrelated
	case is(events.ErrMalformed) || is(events.ErrNoEvent): // only a body with a valid signature is parsed
		return failed
	case is(ErrSignatureMissing):
		return unsigned
	case is(ErrSignatureMalformed):
		return malformedHeader
	case slices.ContainsFunc(unprovenErrors, is):
		return unproven
	}
	return unrelated
}
