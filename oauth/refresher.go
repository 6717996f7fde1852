package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Defaults of [RefreshPolicy]. They are choices of this library: the API states
// no rate limit. What is assumed, 5,000 requests in five minutes, leaves room
// for three replicas at this rate.
const (
	DefaultUsedWithin      = 7 * 24 * time.Hour
	DefaultRefreshInterval = 30 * time.Second
	DefaultRefreshWorkers  = 4
	DefaultRefreshSpacing  = 200 * time.Millisecond
)

// RefreshPolicy says whose tokens a [Refresher] keeps fresh, and how fast. The
// zero value is a good one.
type RefreshPolicy struct {
	// UsedWithin leaves out users whom nobody used for longer than this, by
	// Token.UsedAt; 0 means [DefaultUsedWithin]. Their refresh tokens do not
	// end, and their next call refreshes and waits for that once.
	UsedWithin time.Duration

	// Everyone keeps the tokens of all users fresh, for ever: half a request a
	// user an hour.
	Everyone bool

	// Limiter is asked before each refresh, and before looking for what is due;
	// nil spaces the refreshes of this
	// process by [DefaultRefreshSpacing] and some jitter. *rate.Limiter of
	// golang.org/x/time/rate is one, and so is the module's RateLimiter. Use
	// the one that the calls use where the platform counts all together.
	Limiter interface {
		Wait(ctx context.Context) error
	}

	// Interval is how long to wait, with jitter, when nothing is due; 0 means
	// [DefaultRefreshInterval].
	Interval time.Duration

	// Workers is how many refreshes run at a time; 0 means
	// [DefaultRefreshWorkers].
	Workers int
}

func (p RefreshPolicy) withDefaults() (RefreshPolicy, error) {
	if p.UsedWithin < 0 || p.Interval < 0 || p.Workers < 0 {
		return p, &api.ArgumentError{Field: "oauth.RefreshPolicy", Reason: "must not hold negative values"}
	}
	if p.UsedWithin == 0 {
		p.UsedWithin = DefaultUsedWithin
	}
	if p.Interval == 0 {
		p.Interval = DefaultRefreshInterval
	}
	if p.Workers == 0 {
		p.Workers = DefaultRefreshWorkers
	}
	if p.Limiter == nil {
		p.Limiter = &spacing{every: DefaultRefreshSpacing}
	}
	return p, nil
}

// Refresher replaces tokens before they end, so that no call has to wait for a
// refresh. It looks for tokens that are due ([Token.RefreshDue], which spreads
// them), of users in use, and takes them from the store a few at a time under
// leases: any number of replicas share the work, and none is in charge. It rests
// while [Client.RefreshPaused], and longer and longer while nothing but failures
// comes back.
//
// A program without one is right too: then tokens are refreshed by the calls
// that need them.
type Refresher struct {
	client  *Client
	store   Store
	claimer Claimer
	policy  RefreshPolicy
}

// NewRefresher returns a refresher of the tokens of client's users in store,
// which has to be a [Claimer]. It does nothing until [Refresher.Run].
func NewRefresher(client *Client, store Store, policy RefreshPolicy) (*Refresher, error) {
	claimer, ok := store.(Claimer)
	if !ok {
		return nil, fmt.Errorf("dispensary: NewRefresher: the store is no oauth.Claimer: %w", errors.ErrUnsupported)
	}
	policy, err := policy.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Refresher{client: client, store: store, claimer: claimer, policy: policy}, nil
}

// Run works until ctx ends, and then waits for the refreshes under way, which
// takes no longer than [Config.LeaseTTL] or so, and returns nil. It returns an
// error only if it can do nothing at all: the store says that it does not
// support [Claimer]. Call [Client.Shutdown] after it.
func (r *Refresher) Run(ctx context.Context) error {
	var failures int // rounds in a row in which nothing worked
	for {
		result, err := r.round(ctx)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return err
		case err != nil, result.hopeless():
			failures++
		default:
			failures = 0
		}
		if err != nil && ctx.Err() == nil {
			r.log(ctx, "due tokens could not be claimed", slog.Any("error", err))
		}
		if !pause(ctx, r.rest(result, failures)) {
			return nil
		}
	}
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
	case !needsUser(err): // the platform's word on a user is no failure
		r.failed++
	}
}

// Waits between rounds in which nothing worked.
const (
	firstRest = time.Second
	lastRest  = time.Minute
)

// rest returns how long to wait for the next round.
func (r *Refresher) rest(result *round, failures int) time.Duration {
	until, paused := r.client.RefreshPaused()
	switch {
	case paused:
		return time.Until(until) + jittered(r.policy.Interval)/2
	case failures > 0:
		return backoff(failures, firstRest, lastRest)
	case result.more:
		return 0
	}
	return jittered(r.policy.Interval)
}

// round claims some tokens that are due and refreshes them. Whose token is claimed
// has calls waiting, perhaps on another replica: there are no more claims than
// workers, and than the limiter is likely to let pass soon.
func (r *Refresher) round(ctx context.Context) (result *round, err error) {
	result = &round{}
	defer protect(&err)
	if _, paused := r.client.RefreshPaused(); paused || r.client.endpoint.failing() != nil {
		return result, nil
	}
	pace, ok := r.turn(ctx)
	if !ok {
		return result, nil
	}
	batch := r.policy.Workers
	if pace > 0 {
		batch = min(batch, 1+int(claimTime/pace))
	}
	due := r.due(batch)
	asking, cancel := r.client.limitStore(ctx)
	defer cancel()
	began := time.Now()
	records, err := r.claimer.ClaimDue(asking, due)
	if err != nil {
		return result, err
	}
	result.more = len(records) >= due.Limit
	var wg sync.WaitGroup
	defer wg.Wait()
	for begun := 0; len(records) > 0; records = records[1:] {
		record := records[0]
		claim := Lease{Key: record.Key, Version: record.Version, Owner: due.Owner}
		if r.client.blocked(slot{r.store, claim.Key, toRenew}) != nil || begun == batch ||
			result.failedAlone(batch) || (begun > 0 && !r.mayGoOn(ctx, began)) {
			r.release(ctx, claim)
			continue
		}
		begun++
		wg.Go(func() { result.count(r.refresh(ctx, record, claim)) })
	}
	return result, nil
}

// claimTime is how long a claim may wait for its turn.
const claimTime = 2 * time.Second

// turn waits for the limiter and returns how long that took, and whether the next
// refresh may begin.
func (r *Refresher) turn(ctx context.Context) (pace time.Duration, ok bool) {
	began := time.Now()
	r.client.guard(ctx, r.client.Key(""), "RefreshPolicy.Limiter", func() { ok = r.policy.Limiter.Wait(ctx) == nil })
	return time.Since(began), ok
}

// mayGoOn waits for the turn of the next claim. It is false where the claim must not
// be used any more, or has waited for long enough.
func (r *Refresher) mayGoOn(ctx context.Context, began time.Time) bool {
	_, paused := r.client.RefreshPaused()
	if paused || time.Since(began) > claimTime {
		return false
	}
	_, ok := r.turn(ctx)
	return ok && time.Since(began) < r.client.config.LeaseTTL/2
}

// due asks for more than a batch by as many as are known to fail for now, so
// that these do not keep the others from their turn for ever.
func (r *Refresher) due(batch int) Due {
	now := time.Now()
	due := Due{
		Environment: r.client.Environment(), Before: now,
		Limit: batch + min(r.client.cooling.size(), maxSkipped), Owner: rand.Text(), TTL: r.client.config.LeaseTTL,
	}
	if !r.policy.Everyone {
		due.UsedSince = now.Add(-r.policy.UsedWithin)
	}
	return due
}

// maxSkipped bounds a claim.
const maxSkipped = 1000

// refresh carries one refresh out. It belongs to the flight of the user, which
// ctx does not end: a call that needs the token joins it.
func (r *Refresher) refresh(ctx context.Context, record Record, claim Lease) (err error) {
	defer protect(&err)
	at := slot{r.store, record.Key, toRenew}
	if r.client.config.outgrown(record.Token) {
		_, err = r.client.condemn(ctx, at, claim, record, ReasonScopesExtended, nil)
		return err
	}
	renewal := &renewal{client: r.client, slot: at, claim: &claim}
	f, own := r.client.flights.join(ctx, at, renewal.run)
	if !own {
		r.release(ctx, claim) // or the flight would wait for our lease
	}
	_, err = f.wait(context.WithoutCancel(ctx), record.Key)
	return err
}

func (r *Refresher) release(ctx context.Context, claim Lease) {
	ctx, cancel := r.client.limitStore(context.WithoutCancel(ctx))
	defer cancel()
	if err := r.store.Release(ctx, claim); err != nil {
		r.log(ctx, "a claim could not be released", slog.Any("error", storeError("Release", claim.Key, err)))
	}
}

func (r *Refresher) log(ctx context.Context, message string, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("environment", r.client.Environment().String()))
	r.client.logger.LogAttrs(ctx, slog.LevelWarn, "dispensary oauth: "+message, attrs...)
}

// jittered returns between three and five quarters of d: replicas that start
// together must not stay together.
func jittered(d time.Duration) time.Duration {
	return d*3/4 + mathrand.N(d/2+1)
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
