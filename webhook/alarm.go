package webhook

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// defaultAlarmAfter contains the default ages of an outage at which an [Alarm] reports it. The
// first leave time to investigate. The last is 4 hours before the platform disables the endpoint,
// after 24 hours of failures.
// API section: "Webhooks" 8.
var defaultAlarmAfter = []time.Duration{15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 20 * time.Hour}

// unconfirmedAge is the age at which rejected requests without an accepted event are an outage,
// although Confirm has not confirmed it. The platform disables the endpoint 12 hours later.
const unconfirmedAge = 12 * time.Hour

// steadyGap is the longest gap in a series of requests of the platform. A scanner sends fewer.
const steadyGap = time.Hour

const (
	confirmTimeout = 30 * time.Second
	confirmPause   = 5 * time.Minute // the shortest time between two calls of Confirm for a tenant
)

// AlarmConfig configures an [Alarm]. Notify is required.
type AlarmConfig struct {
	// Notify is called at the ages of an outage in After, and once when the outage is
	// over. Calls do not overlap. It may take long if a [Handler] calls Observe, because
	// the response has been sent.
	Notify func(context.Context, Outage)

	// Confirm reports whether the platform could not deliver an event to the tenant since a
	// time, by the delivery log: API section "Webhooks" 9. An empty tenant stands for all
	// tenants: see [Outage].Tenant. Confirm must return within 30 seconds.
	//
	// Confirm is called while requests of a tenant are rejected and none is accepted: at the first
	// age in After and then again after the same time, at least 5 minutes. True makes
	// the rejected requests an outage at once. After false, the next call asks only about the time
	// since. False and an error leave the decision to the age of the outage, and so does nil: see
	// [Alarm].
	Confirm func(ctx context.Context, tenant string, since time.Time) (bool, error)

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

// Outage is a series of failures of one kind and one tenant without a success.
type Outage struct {
	// Tenant is the name of the tenant. It is empty for a [Handler] without tenants, and for
	// requests whose tenant is unknown or was not looked up, because their header is invalid.
	Tenant string

	Kind OutageKind

	// Since is the time of the first failure, and Last the time of the latest.
	Since, Last time.Time

	// Failures is the number of failures. With [OutageKindRejecting] it includes the
	// requests of strangers.
	Failures int

	// Confirmed reports whether [AlarmConfig].Confirm has confirmed an outage of kind
	// [OutageKindRejecting]. Without it, all requests may be those of strangers.
	Confirmed bool

	// Reason is the error of the latest failure.
	Reason error

	// Over reports whether a delivery has been acknowledged again. The platform's event lists
	// contain all undelivered events: see package reconcile.
	Over bool
}

// Age returns the time from the first failure to the latest.
func (o Outage) Age() time.Duration { return o.Last.Sub(o.Since) }

// Alarm warns before the platform disables an endpoint. It counts failures in a row and their age,
// separately for each tenant of a [Handler]. Set [Observer].RequestEnd to its Observe method, or
// call Observe there.
//
// A failure to accept an event counts immediately. So does a correctly signed body without an
// event.
//
// A rejected request does not count immediately, because anybody can send one. Rejected requests
// are an outage if AlarmConfig.Confirm confirms it. Without a confirmation they are an outage after
// 12 hours without an accepted event, because the delivery log may not show the events of every
// clinic. Requests without a well-formed signature header count for these 12 hours only if they
// came at least once per hour, unlike those of a scanner. Probes and methods other than POST never
// count.
//
// An accepted event ends the outages of its tenant. It also ends the outage of requests without a
// known tenant, so only a failure of all tenants is reported for these.
//
// An alarm sees only the requests of its process. Behind a load balancer, create one in each
// process, so that it also reports if a single process fails. The counts end with the process.
// The platform's delivery log contains all attempts.
type Alarm struct {
	config AlarmConfig

	mu        sync.Mutex
	tenants   map[string]*failures
	pending   []notice
	notifying bool // a goroutine in Observe processes pending
}

// failures are the failures of a tenant since its last accepted event.
type failures struct {
	failing, rejecting series

	asked time.Time // of the last call of Confirm
	clean time.Time // the delivery log had no failure until then
}

// series is a series of failures. It is an outage if it counts.
type series struct {
	outage Outage
	counts bool
	passed int       // number of ages in AlarmConfig.After with a call of Notify
	signed time.Time // of the first request with a well-formed signature header
	steady time.Time // of the first request since which no gap was longer than steadyGap
}

// notice is a call of Notify, or of Confirm if ask is set.
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
	return &Alarm{config: c, tenants: map[string]*failures{}}, nil
}

// Observe counts a request. Use it as the RequestEnd of an [Observer]. It calls Confirm and
// Notify before it returns. If another call of Observe is already doing so, that call makes these
// calls too.
func (a *Alarm) Observe(ctx context.Context, o Observation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch evidenceOf(o) {
	case delivered:
		a.over(o.Tenant)
		a.over("")
	case failed:
		a.failed(o)
	case unproven:
		a.rejected(o)
	}
	if !a.notifying {
		a.notify(ctx)
	}
}

// Outages returns the current outages for a health check, and the failures that do not count yet:
// see [Alarm]. Doubtful failures of kind [OutageKindRejecting] may be requests of strangers. Both
// are sorted by Since and contain at most one outage of each kind for a tenant.
func (a *Alarm) Outages() (current, doubtful []Outage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.tenants {
		for _, s := range []*series{&f.failing, &f.rejecting} {
			switch {
			case s.counts:
				current = append(current, s.outage)
			case s.outage.Failures > 0:
				doubtful = append(doubtful, s.outage)
			}
		}
	}
	order := func(a, b Outage) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Kind, b.Kind))
	}
	slices.SortFunc(current, order)
	slices.SortFunc(doubtful, order)
	return current, doubtful
}

// of returns the failures of a tenant. Only known tenants have a name, so their number is limited.
func (a *Alarm) of(tenant string) *failures {
	f := a.tenants[tenant]
	if f == nil {
		f = &failures{}
		a.tenants[tenant] = f
	}
	return f
}

// over ends the outages of a tenant. If Notify was called for one, it adds the end to pending.
func (a *Alarm) over(tenant string) {
	f := a.tenants[tenant]
	if f == nil {
		return
	}
	for _, s := range []*series{&f.failing, &f.rejecting} {
		if s.passed > 0 {
			s.outage.Over = true
			a.pending = append(a.pending, notice{outage: s.outage})
		}
		*s = series{}
	}
}

// failed counts a failure to accept an event. A correctly signed event ends a doubt about the
// signatures.
func (a *Alarm) failed(o Observation) {
	s := &a.of(o.Tenant).failing
	a.count(s, OutageKindFailing, o)
	s.counts = s.outage.Failures >= a.config.MinFailures
	a.warn(s)
	if o.Key.EventID == "" {
		return
	}
	for _, tenant := range []string{o.Tenant, ""} {
		if r := &a.of(tenant).rejecting; !r.counts {
			*r = series{}
		}
	}
}

// rejected counts a rejected request, possibly of the platform.
func (a *Alarm) rejected(o Observation) {
	f := a.of(o.Tenant)
	s := &f.rejecting
	before := s.outage.Last
	a.count(s, OutageKindRejecting, o)
	now := s.outage.Last
	if now.Sub(before) > steadyGap {
		s.steady = now
	}
	if s.signed.IsZero() && !errors.Is(o.Err, ErrSignatureMissing) && !errors.Is(o.Err, ErrSignatureMalformed) {
		s.signed = now
	}
	if s.outage.Failures < a.config.MinFailures {
		return
	}
	s.counts = s.counts || now.Sub(s.steady) >= unconfirmedAge || !s.signed.IsZero() && now.Sub(s.signed) >= unconfirmedAge
	a.warn(s)
	pause := max(confirmPause, a.config.After[0])
	if a.config.Confirm != nil && !s.outage.Confirmed && a.passed(s) > 0 && s.outage.Last.Sub(f.asked) >= pause {
		f.asked = s.outage.Last
		a.pending = append(a.pending, notice{outage: s.outage, ask: true})
	}
}

// count adds a failure to s.
func (a *Alarm) count(s *series, kind OutageKind, o Observation) {
	now := a.config.Now()
	if s.outage.Failures == 0 {
		s.outage.Tenant, s.outage.Kind, s.outage.Since = o.Tenant, kind, now
	}
	s.outage.Failures++
	s.outage.Last, s.outage.Reason = now, o.Err
}

// passed returns the number of ages in After that s has reached.
func (a *Alarm) passed(s *series) int {
	passed, _ := slices.BinarySearch(a.config.After, s.outage.Age()+1)
	return passed
}

// warn adds a call of Notify to pending if s counts and has reached a new age in After.
func (a *Alarm) warn(s *series) {
	if passed := a.passed(s); s.counts && passed > s.passed {
		s.passed = passed
		a.pending = append(a.pending, notice{outage: s.outage})
	}
}

// notify processes pending in order, so that the end of an outage is never reported before its
// warning. Observe does not wait for a Notify of another request.
func (a *Alarm) notify(ctx context.Context) {
	a.notifying = true
	defer func() { a.notifying = false }()
	for len(a.pending) > 0 {
		next := a.pending[0]
		a.pending = a.pending[1:]
		if next.ask {
			a.confirm(ctx, next.outage)
			continue
		}
		a.unlocked(func() { a.config.Notify(ctx, next.outage) })
	}
}

// confirm calls Confirm. It adds a call of Notify to pending if the outage is confirmed and still
// continues.
func (a *Alarm) confirm(ctx context.Context, o Outage) {
	f := a.of(o.Tenant)
	since, asked := o.Since, f.asked
	if f.clean.After(since) {
		since = f.clean
	}
	var confirmed bool
	var err error
	a.unlocked(func() {
		ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		confirmed, err = a.config.Confirm(ctx, o.Tenant, since)
	})
	s := &f.rejecting
	switch {
	case err != nil:
	case !confirmed:
		f.clean = asked
	case s.outage.Failures > 0 && s.outage.Since.Equal(o.Since): // no event was accepted meanwhile
		s.outage.Since, s.outage.Confirmed, s.counts, s.passed = since, true, true, 0
		a.warn(s)
	}
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
	unrelated evidence = iota
	delivered          // an event was accepted
	failed             // an event could not be accepted
	unproven           // the sender is
)

// rejections are the errors of rejected requests that may be from the platform.
var rejections = []error{
	ErrSignatureMissing, ErrSignatureMalformed, ErrSignatureMismatch, ErrTimestampTooOld, ErrTimestampTooNew,
	ErrUnknownTenant, ErrUnknownPath, ErrBodyConsumed, ErrBodyTooLarge, ErrBodyUnreadable,
}

func evidenceOf(o Observation) evidence {
	is := func(err error) bool { return errors.Is(o.Err, err) }
	switch {
	case o.Outcome == OutcomeAccepted || o.Outcome == OutcomeDuplicate:
		return delivered
	case o.Outcome == OutcomeUnavailable:
		return failed
	case o.Outcome != OutcomeRejected || is(ErrMethod) || is(errUnsignedProbe):
		return unrelated
	case is(events.ErrMalformed) || is(events.ErrNoEvent): // only a body with a valid signature is parsed
		return failed
	case slices.ContainsFunc(rejections, is):
		return unproven
	}
	return unrelated
}
