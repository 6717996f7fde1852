package tokens

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/internal/priority"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Defaults of [KeepFreshPolicy], and bounds.
const (
	defaultUsedWithin = 7 * 24 * time.Hour
	defaultInterval   = 30 * time.Second

	refreshSpacing = 200 * time.Millisecond
	refreshWorkers = 4 // refreshes that run at a time
)

// KeepFreshPolicy says whose tokens [Connections.KeepFresh] keeps fresh, and how fast.
// The zero value is a good one.
type KeepFreshPolicy struct {
	// UsedWithin leaves out users without calls for longer than this, by
	// Token.UsedAt; 0 means 7 days. Their refresh tokens do not
	// end, and their next call refreshes and waits for that once.
	UsedWithin time.Duration

	// Interval is how long to wait, with jitter, when nothing is due; 0 means 30 seconds.
	Interval time.Duration
}

func (p KeepFreshPolicy) withDefaults() (KeepFreshPolicy, error) {
	if p.UsedWithin < 0 || p.Interval < 0 {
		return p, &api.ArgumentError{Field: "tokens.KeepFreshPolicy", Reason: "must not hold negative values"}
	}
	p.UsedWithin = cmp.Or(p.UsedWithin, defaultUsedWithin)
	p.Interval = cmp.Or(p.Interval, defaultInterval)
	return p, nil
}

// KeepFresh replaces tokens before they end, so that no call has to wait for a
// refresh, until ctx ends. It looks for tokens that are due ([tokenstore.DueAt], which spreads
// them), of users with calls, and takes them from the store a few at a time under
// leases: any number of replicas share the work, and none is in charge. It rests
// while [Connections.Paused], and longer and longer while nothing but failures
// comes back. Each process starts at most one refresh in 200 ms, with some jitter. Its
// refreshes wait for [oauth.Config].Limiter with [api.PriorityRefresh], and for no more than 2
// seconds while they have leases.
//
// When ctx ends it waits for the refreshes under way, which
// takes no longer than [Config.LeaseTTL] or so, and returns nil. Call
// [Connections.Close] after it.
//
// A program that does not call it is right too: then tokens are refreshed by the
// calls that need them.
//
// It returns an [*api.ArgumentError] for an invalid policy.
func (c *Connections) KeepFresh(ctx context.Context, policy KeepFreshPolicy) error {
	ctx = priority.WithDefault(ctx, api.PriorityRefresh)
	policy, err := policy.withDefaults()
	if err != nil {
		return err
	}
	r := &refresher{Connections: c, policy: policy, pace: spacing{every: refreshSpacing}}
	var failures int // rounds in a row in which nothing worked
	for {
		result, err := r.round(ctx)
		switch {
		case err != nil, result.hopeless():
			failures++
		default:
			failures = 0
		}
		if err != nil && ctx.Err() == nil {
			c.hooks.logger.LogAttrs(ctx, slog.LevelWarn, "tokens: due tokens could not be claimed",
				slog.Any("error", err), slog.String("environment", c.Environment().String()))
		}
		if !pause(ctx, r.rest(result, failures)) {
			return nil
		}
	}
}

// refresher is one run of KeepFresh.
type refresher struct {
	*Connections
	policy KeepFreshPolicy
	pace   spacing

	limited    bool // the limiter was too slow for the last claim
	unreadable int  // how many records that cannot be read the next claim may postpone
}

// round is what came of one claim.
type round struct {
	more              bool // there may be more that is due
	refreshed, failed int
	mu                sync.Mutex
}

func (r *round) hopeless() bool { return r.failedAlone(1) }

// failedAlone reports that so many failed, and nothing worked.
func (r *round) failedAlone(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed >= n && r.refreshed == 0
}

func (r *round) count(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.refreshed++
	case !needsUser(err) && !isInvalidGrant(err): // the platform's word on a user is no failure
		r.failed++
	}
}

// Waits between rounds in which nothing worked.
const (
	firstRest = time.Second
	lastRest  = time.Minute
)

// rest returns how long to wait for the next round.
func (r *refresher) rest(result *round, failures int) time.Duration {
	until, paused := r.Paused()
	switch {
	case paused:
		return time.Until(until) + jittered(r.policy.Interval)/2
	case failures > 0:
		return jitteredBackoff(failures, firstRest, lastRest)
	case result.more:
		return 0
	}
	return jittered(r.policy.Interval)
}

// round claims some tokens that are due and refreshes them. Calls of a user
// whose token is claimed wait, perhaps on another replica: there are no more claims
// than workers, and a claim waits for the limiter for a short time only.
func (r *refresher) round(ctx context.Context) (result *round, err error) {
	result = &round{}
	defer recoverAsError(&err)
	if _, paused := r.Paused(); paused || r.circuit.closed() != nil || r.pace.Wait(ctx) != nil {
		return result, nil
	}
	batch := refreshWorkers
	var admitted context.Context // of the next refresh
	if r.limited {
		began := time.Now()
		if admitted = r.admit(ctx); admitted == nil {
			return result, nil
		}
		batch, r.limited = 1, time.Since(began) > claimTime
	}
	due := r.due(batch)
	asking, cancel := withStoreTimeout(ctx)
	defer cancel()
	began := time.Now()
	records, err := r.store.ClaimDue(asking, due)
	if errors.Is(err, tokenstore.ErrUnreadable) {
		r.passUnreadable(ctx, batch, err)
		result.more = true
		return result, nil
	}
	if err != nil {
		return result, err
	}
	r.unreadable = 0
	result.more = len(records) >= due.Limit
	var wg sync.WaitGroup
	defer wg.Wait()
	for begun := 0; len(records) > 0; records = records[1:] {
		record := records[0]
		claim := tokenstore.Lease{Key: record.Key, Version: record.Version, Owner: due.Owner}
		if r.circuit.blocked(claim.Key) != nil || begun == batch ||
			result.failedAlone(batch) || (begun > 0 && !r.mayContinue(ctx, began)) {
			r.release(context.WithoutCancel(ctx), claim)
			continue
		}
		if admitted == nil {
			admitted = r.admitSoon(ctx, began)
		}
		if admitted == nil {
			r.release(context.WithoutCancel(ctx), claim)
			continue
		}
		work := admitted
		admitted = nil
		begun++
		result.more = true // the claim may have left out records that cannot be read
		wg.Go(func() { result.count(r.refresh(work, record, claim)) })
	}
	return result, nil
}

// unreadableRetry is how long KeepFresh ignores a record that cannot be read.
const unreadableRetry = time.Hour

// passUnreadable reports that a claim found only records that cannot be read, which are
// postponed now. The next claim is larger, so that any number of them is passed soon.
func (r *refresher) passUnreadable(ctx context.Context, batch int, err error) {
	r.unreadable = min(max(2*r.unreadable, batch), maxSkipped)
	r.hooks.logger.LogAttrs(ctx, slog.LevelWarn, "tokens: due tokens cannot be read and are postponed",
		slog.Any("error", err), slog.String("environment", r.Environment().String()), slog.Duration("next_in", unreadableRetry))
}

// claimTime is how long a claim may wait for its turn.
const claimTime = 2 * time.Second

// admit waits for the limiter. It returns the context of a refresh that may begin, or nil.
func (r *refresher) admit(ctx context.Context) (admitted context.Context) {
	r.hooks.guard(ctx, r.Key(""), "oauth.Config.Limiter", func() {
		if work, err := r.client.Admit(ctx); err == nil {
			admitted = context.WithoutCancel(work)
		}
	})
	return admitted
}

// admitSoon does the same while r has claims. If it fails, the next round waits before its claim,
// and all other claims of this round go back.
func (r *refresher) admitSoon(ctx context.Context, began time.Time) context.Context {
	if r.limited {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(claimTime))
	defer cancel()
	admitted := r.admit(ctx)
	r.limited = admitted == nil
	return admitted
}

// mayContinue waits for the turn of the next claim. It is false where the claim must not
// be used any more, or has waited for long enough.
func (r *refresher) mayContinue(ctx context.Context, began time.Time) bool {
	_, paused := r.Paused()
	if paused || time.Since(began) > claimTime {
		return false
	}
	return r.pace.Wait(ctx) == nil && time.Since(began) < r.config.LeaseTTL/2
}

// due asks for more than a batch by as many as are known to fail for now, so
// that these do not keep the others from being refreshed.
func (r *refresher) due(batch int) tokenstore.Due {
	now := time.Now()
	due := tokenstore.Due{
		Environment: r.Environment(), Before: now,
		Limit: batch + min(r.circuit.failingNow(), maxSkipped) + r.unreadable, Owner: rand.Text(), TTL: r.config.LeaseTTL,
		Retry: now.Add(unreadableRetry), UsedSince: now.Add(-r.policy.UsedWithin),
	}
	due.From = due.UsedSince.Add(-clockTolerance)
	return due
}

// clockTolerance is how far clocks may be apart. A token is issued after the call that needed
// it, and is due later: one that was due before the time of the last calls that count, has
// had none since.
const clockTolerance = 24 * time.Hour

// maxSkipped bounds a claim.
const maxSkipped = 1000

// refresh carries one refresh out, as the one call of the user, which
// ctx does not end: a call that needs the token joins it.
func (r *refresher) refresh(ctx context.Context, record tokenstore.Record, claim tokenstore.Lease) (err error) {
	defer recoverAsError(&err)
	if r.client.ScopesAddedSince(record.Token) {
		_, err = r.markReauthorize(ctx, claim, record, tokenstore.ReasonScopesExtended, nil)
		return err
	}
	work := &refreshTask{conns: r.Connections, key: record.Key, claim: &claim}
	c, started := r.calls.join(ctx, callKey{key: record.Key, kind: refreshCall}, nil, work.run)
	if !started {
		r.release(context.WithoutCancel(ctx), claim) // or the call would wait for our lease
	}
	_, err = c.wait(context.WithoutCancel(ctx), record.Key)
	return err
}

// jittered returns between three and five quarters of d: replicas that start
// together must not stay together.
func jittered(d time.Duration) time.Duration {
	return d*3/4 + jitter.N(d/2+1)
}

// spacing is a limiter that keeps starts apart.
type spacing struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

// Wait returns when the next start may be.
func (s *spacing) Wait(ctx context.Context) error {
	s.mu.Lock()
	now := time.Now()
	at := s.next
	if at.Before(now) {
		at = now
	}
	s.next = at.Add(jittered(s.every))
	s.mu.Unlock()
	if !pause(ctx, at.Sub(now)) {
		return ctx.Err()
	}
	return nil
}
