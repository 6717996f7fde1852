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
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Defaults of [KeepFreshPolicy], and limits.
const (
	defaultUsedWithin = 7 * 24 * time.Hour
	defaultInterval   = 30 * time.Second

	refreshSpacing = 200 * time.Millisecond
	refreshWorkers = 4 // concurrent refreshes
)

// KeepFreshPolicy configures [Connections.KeepFresh]. The zero value works for most programs.
type KeepFreshPolicy struct {
	// UsedWithin is the longest time since the last use ([oauth.Token].UsedAt) of a token that
	// KeepFresh refreshes. 0 means 7 days. The refresh tokens of other users do not expire, and
	// their next call waits once for a refresh.
	UsedWithin time.Duration

	// Interval is the wait, with jitter, if no token is due. 0 means 30 seconds.
	Interval time.Duration
}

func (p KeepFreshPolicy) withDefaults() (KeepFreshPolicy, error) {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"UsedWithin", p.UsedWithin},
		{"Interval", p.Interval},
	} {
		if f.value < 0 {
			return p, &api.ArgumentError{Field: "tokens.KeepFreshPolicy." + f.name, Reason: "must not be negative"}
		}
	}
	p.UsedWithin = cmp.Or(p.UsedWithin, defaultUsedWithin)
	p.Interval = cmp.Or(p.Interval, defaultInterval)
	return p, nil
}

// KeepFresh runs until ctx ends and refreshes tokens before they expire, so that no call has
// to wait for a refresh. It claims due tokens of users with recent calls from the store, a few
// at a time under leases. [tokenstore.DueAt] spreads the due times. Any number of replicas
// share the work, and none is in charge. KeepFresh pauses while [Connections.Paused] reports
// true. If every refresh fails, it waits longer after each round. Each process starts at most
// one refresh in 200 ms, with some jitter. Its refreshes wait for [oauth.Config].Limiter with
// [api.PriorityRefresh], and for at most 2 seconds while they have leases.
//
// When ctx ends, KeepFresh waits for the running refreshes and returns nil. This takes about
// [Config].LeaseTTL at most. Call [Connections.Close] after it.
//
// KeepFresh is optional. Without it, the calls that need a token refresh it.
//
// It returns an [*api.ArgumentError] for an invalid policy.
func (c *Connections) KeepFresh(ctx context.Context, policy KeepFreshPolicy) error {
	ctx = apikit.WithPriority(ctx, api.PriorityRefresh)
	policy, err := policy.withDefaults()
	if err != nil {
		return err
	}
	r := &refresher{Connections: c, policy: policy, pace: spacing{every: refreshSpacing}}
	var failures int // consecutive rounds without a success
	for {
		result, err := r.round(ctx)
		switch {
		case err != nil, result.hopeless():
			failures++
		default:
			failures = 0
		}
		if err != nil && ctx.Err() == nil {
			c.hooks.logger.LogAttrs(ctx, slog.LevelWarn, "tokens: could not claim due tokens",
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
	unreadable int  // number of unreadable records that the next claim may postpone
}

// round is the result of one claim.
type round struct {
	more              bool // more tokens may be due
	refreshed, failed int
	mu                sync.Mutex
}

// hopeless reports whether refreshes failed and none succeeded.
func (r *round) hopeless() bool { return r.failed > 0 && r.refreshed == 0 }

func (r *round) count(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.refreshed++
	case !needsUser(err) && !isInvalidGrant(err): // a rejected user is no failure of the platform
		r.failed++
	}
}

// Waits between rounds without a success.
const (
	firstRest = time.Second
	lastRest  = time.Minute
)

// rest returns the wait before the next round.
func (r *refresher) rest(result *round, failures int) time.Duration {
	until, paused := r.Paused()
	switch {
	case paused:
		return time.Until(until) + jittered(r.policy.Interval)/2
	case failures > 0:
		return jitter.Backoff(failures, firstRest, lastRest)
	case result.more:
		return 0
	}
	return jittered(r.policy.Interval)
}

// round claims some due tokens and refreshes them. While a token is claimed, calls of its user
// wait, perhaps on another replica. So round takes no more claims than it has workers, and a
// claim waits for the limiter only for a short time.
func (r *refresher) round(ctx context.Context) (result *round, err error) {
	result = &round{}
	defer recoverAsError(&err)
	if _, paused := r.Paused(); paused || r.brakes.closed() != nil || r.pace.Wait(ctx) != nil {
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
		if r.brakes.blocked(claim.Key) != nil || begun == batch ||
			(begun > 0 && !r.mayContinue(ctx, began)) {
			r.release(ctx, claim)
			continue
		}
		if admitted == nil {
			admitted = r.admitSoon(ctx, began)
		}
		if admitted == nil {
			r.release(ctx, claim)
			continue
		}
		work := admitted
		admitted = nil
		begun++
		result.more = true // the claim may have excluded unreadable records
		wg.Go(func() { result.count(r.refresh(work, record, claim)) })
	}
	return result, nil
}

// unreadableRetry is how long KeepFresh ignores an unreadable record.
const unreadableRetry = time.Hour

// passUnreadable logs a claim that found only unreadable records. The store has postponed
// them. The next claim is larger, so that any number of them is passed soon.
func (r *refresher) passUnreadable(ctx context.Context, batch int, err error) {
	r.unreadable = min(max(2*r.unreadable, batch), maxSkipped)
	r.hooks.logger.LogAttrs(ctx, slog.LevelWarn, "tokens: due tokens cannot be read and are postponed",
		slog.Any("error", err), slog.String("environment", r.Environment().String()), slog.Duration("next_in", unreadableRetry))
}

// claimTime is the longest wait of a claim for its turn.
const claimTime = 2 * time.Second

// admit waits for the limiter. It returns the context of the next refresh, or nil if no
// refresh may begin.
func (r *refresher) admit(ctx context.Context) (admitted context.Context) {
	r.hooks.guard(ctx, r.Key(""), "oauth.Config.Limiter", func() {
		if work, err := r.client.Admit(ctx); err == nil {
			admitted = context.WithoutCancel(work)
		}
	})
	return admitted
}

// admitSoon is admit with a limit, for the time while r has claims. If it fails, r releases
// all other claims of this round, and the next round waits before its claim.
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

// mayContinue waits for the turn of the next claim. It returns false if the claim must not be
// used any more or has waited too long.
func (r *refresher) mayContinue(ctx context.Context, began time.Time) bool {
	_, paused := r.Paused()
	if paused || time.Since(began) > claimTime {
		return false
	}
	return r.pace.Wait(ctx) == nil && time.Since(began) < r.config.LeaseTTL/2
}

// due returns the next claim. Its limit exceeds the batch by the number of users with failing
// refreshes, so that they do not block the others.
func (r *refresher) due(batch int) tokenstore.Due {
	now := time.Now()
	due := tokenstore.Due{
		Environment: r.Environment(), Before: now,
		Limit: batch + min(r.brakes.failingNow(), maxSkipped) + r.unreadable, Owner: rand.Text(), TTL: r.config.LeaseTTL,
		Retry: now.Add(unreadableRetry), UsedSince: now.Add(-r.policy.UsedWithin),
	}
	due.From = due.UsedSince.Add(-clockTolerance)
	return due
}

// clockTolerance is the largest expected difference between clocks. A token is issued after
// the call that needed it, and is due later. So a token due before the start of the UsedWithin
// period has had no call since.
const clockTolerance = 24 * time.Hour

// maxSkipped limits how many users a claim skips.
const maxSkipped = 1000

// refresh runs one refresh as the call of the user, so that requests of the user join it. The
// end of ctx does not cancel it.
func (r *refresher) refresh(ctx context.Context, record tokenstore.Record, claim tokenstore.Lease) (err error) {
	defer recoverAsError(&err)
	if r.client.ScopesAddedSince(record.Token) {
		_, err = r.markReauthorize(ctx, claim, record, tokenstore.ReasonScopesExtended, nil)
		r.users.forget(record.Key)
		return err
	}
	work := &refreshTask{conns: r.Connections, key: record.Key, claim: &claim}
	c, started := r.users.join(ctx, callKey{key: record.Key, kind: refreshCall}, nil, work.run)
	if !started {
		r.release(ctx, claim) // otherwise the call would wait for this lease
	}
	return c.wait(context.WithoutCancel(ctx), record.Key)
}

// jittered returns a random duration from 3/4 to 5/4 of d. Otherwise replicas with the same
// start time would stay in step.
func jittered(d time.Duration) time.Duration {
	return d*3/4 + jitter.N(d/2+1)
}

// spacing is a limiter for the time between starts.
type spacing struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

// Wait returns at the time of the next start.
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
