package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Defaults of a [ClinicsConfig].
const (
	// DefaultParallel is how many clinics are reconciled at a time.
	DefaultParallel = 4

	// DefaultIntegrationsFor is how long the integrations of a clinic are not asked
	// for again.
	DefaultIntegrationsFor = 24 * time.Hour

	// DefaultWholeEvery is how often all lists of a clinic are read.
	DefaultWholeEvery = 24 * time.Hour
)

// Clinic is what a run over one clinic reads: the events of a client whose token is
// that of a user of the clinic, and its integrations, as in [Config].
type Clinic struct {
	Events       events.Service
	Integrations func(context.Context) ([]string, error)
}

// ClinicsConfig is what [Clinics] are made of. Config.Environment, Config.Inbox, List
// and Open are required.
type ClinicsConfig struct {
	// Config is what the runs over all clinics have in common. Events and Integrations
	// must be left empty. The checkpoint of a clinic is named after Name and the
	// clinic's id; IntegrationsFor is [DefaultIntegrationsFor] where it is 0.
	Config Config

	// List returns the ids of the clinics, in the order of their bytes, beginning after
	// the id after, and limit of them at most; fewer than that are the last.
	List func(ctx context.Context, after string, limit int) ([]string, error)

	// Open returns what reads the events of a clinic. It is called once in a run. Its
	// client has to wait for budget, which is Budget, before each attempt.
	Open func(ctx context.Context, clinicID string, budget api.Limiter) (Clinic, error)

	// Budget bounds the calls to the platform, so that reconciling leaves the rest of
	// what the platform allows to others: a limiter of 1,000 requests in five minutes,
	// for example. Each replica has its own. Nil sets no bound but the client's own.
	Budget api.Limiter

	// Parallel is how many clinics are reconciled at a time, and how many more that
	// failed before; 0 means [DefaultParallel].
	Parallel int

	// WholeEvery is how often the lists of events of a clinic are read although nothing says
	// that one is missing; the package comment says what does. Runs between are short: one
	// call. 0 means [DefaultWholeEvery], more than 15 days is refused, as the platform keeps
	// events for 30; with less than the interval of the loop all runs are whole.
	WholeEvery time.Duration
}

// Clinics reconciles all clinics of an environment, in one loop: each in turn, as a
// [Reconciler] of its own would. It is safe for concurrent use.
//
// A pass goes over the clinics in the order of their ids, so that the one whose last turn
// is the longest ago is always next. How far it has come is kept in a checkpoint beside
// the inbox, named after Config.Name: a program that starts anew goes on there, and replicas
// take turns from one pass. What a process had begun when it was killed has its turn in the
// next pass.
//
// A clinic that fails keeps no other waiting: it is tried again after a minute, two, and so
// on up to the interval, apart from the pass, in runs that are counted apart.
//
// The runs of most clinics are short, see [ClinicsConfig].WholeEvery; the package comment
// counts their calls.
type Clinics struct {
	config  ClinicsConfig
	trigger chan struct{}

	mu       sync.Mutex
	rotation rotation // as this process has seen it last
	running  int
	failing  map[string]*FailingClinic
	left     []string // clinics whose runs were broken off by the end of the loop

	// Those of the loop over all.
	turns []turn // that were taken of the pass, and have not begun
	again bool   // a pass was asked for, as there was an outage
}

// turn is that of one clinic in a pass.
type turn struct {
	clinicID string
	since    time.Time // a clinic that was reconciled since then is done
	outages  int       // until then; see rotation
}

// FailingClinic is a clinic whose last run here failed.
type FailingClinic struct {
	ClinicID string

	// Since is when the last run began that left nothing to do, or, where there was
	// none, when the first one failed.
	Since time.Time

	// Failures is how many runs failed in a row, and Next when the next one is due.
	Failures int
	Next     time.Time

	// Err is why the last one failed.
	Err error

	failed time.Time // when the last one did
	busy   bool
}

// ClinicsStats says how [Clinics] stand, as far as this process knows.
type ClinicsStats struct {
	// PassBegan is when the pass began that is under way, or was the last, by whichever
	// replica; zero before the first. Passing reports one that is under way.
	PassBegan time.Time
	Passing   bool

	// Running is how many clinics this process reconciles now.
	Running int

	// Failing are the clinics whose last run in this process failed, the one that was
	// reconciled the longest ago first. One that List does not return any more leaves them
	// with the next pass.
	Failing []FailingClinic

	// Oldest is since when every clinic has been reconciled, the failing ones included:
	// now less this is the lag of the oldest clinic. Zero before the first pass is over.
	Oldest time.Time
}

// NewClinics returns what reconciles all clinics. It sends nothing. An error is an
// [*api.ArgumentError].
func NewClinics(c ClinicsConfig) (*Clinics, error) {
	problem := func(field, reason string) error { return problem("ClinicsConfig."+field, reason) }
	switch {
	case c.List == nil:
		return nil, problem("List", "is missing")
	case c.Open == nil:
		return nil, problem("Open", "is missing")
	case c.Parallel < 0:
		return nil, problem("Parallel", "is negative")
	case c.WholeEvery < 0:
		return nil, problem("WholeEvery", "is negative")
	case c.WholeEvery > retention/2:
		return nil, problem("WholeEvery", "is longer than 15 days: the platform keeps events for 30")
	case c.Config.Events != (events.Service{}):
		return nil, problem("Config.Events", "must be left empty")
	case c.Config.Integrations != nil:
		return nil, problem("Config.Integrations", "must be left empty")
	}
	c.Parallel = cmp.Or(c.Parallel, DefaultParallel)
	c.WholeEvery = cmp.Or(c.WholeEvery, DefaultWholeEvery)
	c.Config.IntegrationsFor = cmp.Or(c.Config.IntegrationsFor, DefaultIntegrationsFor)
	var err error
	if c.Config, err = c.Config.withDefaults(); err != nil {
		return nil, err
	}
	return &Clinics{config: c, trigger: make(chan struct{}, 1), failing: map[string]*FailingClinic{}}, nil
}

// Format prints the type only.
func (c *Clinics) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "reconcile.Clinics") }

// Loop makes one pass over all clinics in each interval, and one after the other if a pass
// takes longer, until ctx ends; its error is the cause of that. An hour is a good interval.
// What fails is logged, and [Observer].RunEnd is called with it.
//
// With several replicas each of them can call it.
func (c *Clinics) Loop(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return &api.ArgumentError{Field: "interval", Reason: "must be positive"}
	}
	var working sync.WaitGroup
	working.Go(func() { c.work(ctx, interval, c.nextFailing, nil) })
	c.work(ctx, interval, func() (turn, time.Duration) { return c.next(ctx, interval) }, c.trigger)
	working.Wait()
	c.giveBack()
	return context.Cause(ctx)
}

// work reconciles what next returns, Parallel clinics at a time. Where next has none it
// says when to ask again.
func (c *Clinics) work(ctx context.Context, interval time.Duration, next func() (turn, time.Duration), trigger <-chan struct{}) {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, c.config.Parallel)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		one, wait := next()
		if one.clinicID != "" && ctx.Err() == nil {
			running.Go(func() {
				defer func() { <-free }()
				c.reconcile(ctx, one, interval)
			})
			continue
		}
		<-free
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-trigger:
			c.again = true
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// reconcile makes one run over a clinic.
func (c *Clinics) reconcile(ctx context.Context, one turn, interval time.Duration) {
	config := c.config.Config
	config.Name += "/" + one.clinicID
	reconciler := &Reconciler{config: config, wholeEvery: c.config.WholeEvery, outages: one.outages, open: func(ctx context.Context) (Clinic, error) {
		return c.config.Open(ctx, one.clinicID, c.config.Budget)
	}}
	c.count(1)
	defer c.count(-1)
	now := config.Now()
	report, err := reconciler.run(ctx, max(now.Sub(one.since), 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failing[one.clinicID]
	if was != nil {
		was.busy = false
	}
	switch {
	case err == nil:
		delete(c.failing, one.clinicID)
	case ctx.Err() != nil:
		c.left = append(c.left, one.clinicID)
	case errors.Is(err, ErrCheckpointHeld): // another replica is at it
		if was != nil {
			was.Next = now.Add(minPause)
		}
	default:
		failed := &FailingClinic{ClinicID: one.clinicID, Since: report.Completed, Err: err, failed: now}
		if was != nil {
			failed.Failures = was.Failures
		}
		if failed.Since.IsZero() {
			failed.Since = now
			if was != nil {
				failed.Since = was.Since
			}
		}
		failed.Next = now.Add(min(interval, minPause<<min(failed.Failures, 10)))
		failed.Failures++
		c.failing[one.clinicID] = failed
	}
}

func (c *Clinics) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += n
}

// nextFailing returns the failing clinic that is due first, or when to ask again.
func (c *Clinics) nextFailing() (turn, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *FailingClinic
	for _, one := range c.failing {
		if !one.busy && (first == nil || one.Next.Before(first.Next)) {
			first = one
		}
	}
	if first == nil {
		return turn{}, minPause
	}
	if wait := first.Next.Sub(c.config.Config.Now()); wait > 0 {
		return turn{}, min(wait, minPause)
	}
	first.busy = true
	return turn{first.ClinicID, first.failed, c.rotation.Outages}, 0
}

// next returns the next clinic of the pass, or when to ask again. Those that failed have
// their own turns.
func (c *Clinics) next(ctx context.Context, interval time.Duration) (turn, time.Duration) {
	for ctx.Err() == nil {
		for len(c.turns) > 0 {
			one := c.turns[0]
			c.turns = c.turns[1:]
			if !c.fails(one.clinicID) {
				return one, 0
			}
		}
		wait, err := c.take(ctx, interval)
		switch {
		case errors.Is(err, ErrCheckpointHeld): // another replica takes some
			return turn{}, time.Second
		case err != nil:
			c.config.Config.Logger.LogAttrs(ctx, slog.LevelError, "no clinic to reconcile could be found",
				slog.String("name", c.config.Config.Name), slog.String("reason", err.Error()))
			return turn{}, minPause
		case wait > 0:
			return turn{}, wait
		}
	}
	return turn{}, 0
}

func (c *Clinics) fails(clinicID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failing[clinicID] != nil
}

// Trigger has [Clinics.Loop] begin a pass now, or after the one that is under way, and makes a
// whole run over every clinic. Call it when the webhook address was switched on again, and when
// the inbox was restored from a backup.
func (c *Clinics) Trigger() {
	select {
	case c.trigger <- struct{}{}:
	default: // a pass is due already
	}
}

// RunAfterOutage triggers whole runs when an outage is over, as [Reconciler.RunAfterOutage]
// triggers a run.
func (c *Clinics) RunAfterOutage(o webhook.Outage) {
	if o.Over {
		c.Trigger()
	}
}

// Stats says how the clinics stand.
func (c *Clinics) Stats() ClinicsStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ClinicsStats{
		PassBegan: c.rotation.Began, Passing: !c.rotation.Began.IsZero() && !c.rotation.Done,
		Running: c.running, Oldest: c.rotation.Before,
	}
	if c.rotation.Done {
		s.Oldest = c.rotation.Began
	}
	for _, one := range c.failing {
		s.Failing = append(s.Failing, *one)
	}
	slices.SortFunc(s.Failing, func(a, b FailingClinic) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ClinicID, b.ClinicID))
	})
	if len(s.Failing) > 0 && !s.Oldest.IsZero() {
		s.Oldest = earlier(s.Oldest, s.Failing[0].Since)
	}
	return s
}
