package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Reconciler finds the events whose webhooks never arrived, and accepts them into
// the same [Inbox] under the same [webhook.Key]. The package comment says how. It
// is safe for concurrent use.
type Reconciler struct {
	config  Config
	trigger chan struct{}

	// Those of a clinic of Clinics.
	open       func(context.Context) (Clinic, error) // completes config, for a run; nil where it is complete
	wholeEvery time.Duration
	outages    int
}

// New returns a reconciler. It sends nothing. An error is an [*api.ArgumentError].
func New(c Config) (*Reconciler, error) {
	switch {
	case c.Events == (events.Service{}):
		return nil, problem("Config.Events", "is missing")
	case c.Integrations == nil:
		return nil, problem("Config.Integrations", "is missing")
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reconciler{config: c, trigger: make(chan struct{}, 1)}, nil
}

// Format prints the type only.
func (r *Reconciler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "reconcile.Reconciler") }

// minPause is how soon a run that failed is tried again; it doubles with every
// further failure.
const minPause = time.Minute

// Loop runs the reconciler at once and then again and again, interval apart, give
// or take a tenth, until ctx ends; its error is the cause of that. An hour is a
// good interval. A run that failed is repeated after a minute, then two, and so on
// up to the interval; what failed is logged, and [Observer].RunEnd is called with
// it.
//
// With several replicas each of them can call it: after its first run, what one has
// done the others skip, by the clock of each.
//
// [Reconciler.Trigger] starts a run before its time.
func (r *Reconciler) Loop(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return &api.ArgumentError{Field: "interval", Reason: "must be positive"}
	}
	// When a run was asked for that has not succeeded yet: what began before does not take its
	// place. The first one is for what happened while the program did not run.
	asked := r.config.Now()
	failures := 0
	for ctx.Err() == nil {
		pause := interval - interval/10 + jitter.N(interval/5+1)
		fresh := interval / 2
		if !asked.IsZero() {
			fresh = max(0, min(fresh, r.config.Now().Sub(asked)))
		}
		if _, err := r.run(ctx, fresh); err != nil {
			pause = min(pause, minPause<<min(failures, 10))
			failures++
		} else {
			failures, asked = 0, time.Time{}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.trigger:
			asked = r.config.Now()
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// Trigger has [Reconciler.Loop] start a run now, or after the one that is under
// way. It does not wait for it.
func (r *Reconciler) Trigger() {
	select {
	case r.trigger <- struct{}{}:
	default: // a run is due already
	}
}

// RunAfterOutage triggers a run when an outage is over: the platform has given up
// some of what it could not deliver meanwhile. Call it in
// [webhook.AlarmConfig].Notify.
func (r *Reconciler) RunAfterOutage(o webhook.Outage) {
	if o.Over {
		r.Trigger()
	}
}

// Run looks once for events that were missed, and accepts them into the inbox:
// events of all groups, the oldest first.
//
// An error says that something is left to do, and for the groups concerned
// [GroupReport].Err says why. Nothing is lost by it: the next run goes on from the
// checkpoint, and reads no event again that has been accepted. While another
// replica runs, and if another one took over because this one was held up for too
// long, the error is [ErrCheckpointHeld].
//
// What can never be recovered is no error: see [Report].Gaps.
func (r *Reconciler) Run(ctx context.Context) (Report, error) { return r.run(ctx, 0) }

// run skips what was done less than fresh ago.
func (r *Reconciler) run(ctx context.Context, fresh time.Duration) (Report, error) {
	ctx = api.ContextWithDefaultPriority(ctx, api.PriorityReconcile)
	if start := r.config.Observer.RunStart; start != nil {
		given := ctx
		ctx = safecall.Begin(given, r.config.Logger, func() context.Context { return start(given) })
	}
	one := &run{
		config: r.config, open: r.open, wholeEvery: r.wholeEvery, outages: r.outages,
		now: r.config.Now(), missed: map[string]*missedEvent{},
	}
	one.report.Name, one.report.Started = r.config.Name, one.now
	err := one.execute(ctx, fresh)
	one.report.Completed = one.checkpoint.Completed
	one.report.Duration = r.config.Now().Sub(one.now)
	r.log(ctx, one.report, err)
	if end := r.config.Observer.RunEnd; end != nil {
		safecall.Observe(ctx, r.config.Logger, func() { end(ctx, one.report, err) })
	}
	return one.report, err
}

func (r *Reconciler) log(ctx context.Context, report Report, err error) {
	level, message := slog.LevelInfo, "webhook events reconciled"
	attrs := []slog.Attr{slog.String("name", r.config.Name), slog.Any("report", report)}
	switch {
	case report.Skipped || errors.Is(err, ErrCheckpointHeld):
		level = slog.LevelDebug
	case err != nil:
		level = slog.LevelError
	case len(report.Gaps) > 0:
		level = slog.LevelWarn
	}
	if err != nil {
		message = "webhook events not reconciled"
		attrs = append(attrs, slog.String("reason", err.Error()))
	}
	if len(report.Gaps) > 0 {
		attrs = append(attrs, slog.String("first_gap", report.Gaps[0].String()))
	}
	r.config.Logger.LogAttrs(ctx, level, message, attrs...)
}

// execute claims the checkpoint and does everything that has to be done while no
// other replica does it.
func (r *run) execute(ctx context.Context, fresh time.Duration) (err error) {
	working, lease, err := claim(ctx, &r.config)
	if err != nil {
		return fmt.Errorf("reconcile: run failed: %w", err)
	}
	r.lease = lease
	defer func() {
		lease.release()
		// Whatever failed because the claim was lost, that is why.
		if err != nil {
			if cause := context.Cause(working); ctx.Err() == nil && cause != errReleased {
				err = cause
			}
			err = fmt.Errorf("reconcile: run failed: %w", err)
		}
	}()
	if err := r.checkpoint.decode(lease.state); err != nil {
		return err
	}
	if since := r.now.Sub(r.checkpoint.Completed); since >= 0 && since < fresh {
		r.report.Skipped = true
		return nil
	}
	if err := r.work(working); err != nil {
		return errors.Join(err, r.wholeNext(context.WithoutCancel(working)))
	}
	return nil
}

// work does what there is to do.
func (r *run) work(ctx context.Context) error {
	if r.open != nil {
		clinic, err := safecall.Value(func() (Clinic, error) { return r.open(ctx) })
		if err != nil {
			return err
		}
		r.config.Events, r.config.Integrations = clinic.Events, clinic.Integrations
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.list(ctx); err != nil {
		return err
	}
	if err := r.recoverMissed(ctx); err != nil {
		return errors.Join(err, r.save(context.WithoutCancel(ctx)))
	}
	return r.complete(ctx)
}

// prepare finds out where the run begins.
func (r *run) prepare(ctx context.Context) error {
	if err := r.findIntegrations(ctx); err != nil {
		return fmt.Errorf("integrations: %w", err)
	}
	r.report.Groups = make([]GroupReport, len(r.config.Groups))
	restart := r.checkpoint.begin(r.integrations, r.now, r.config.FirstRun)
	r.deliveries = &listRun{rank: len(r.config.Groups), from: r.checkpoint.Deliveries.Add(-r.config.Overlap), report: &GroupReport{}}
	for i, group := range r.config.Groups {
		r.report.Groups[i].Group = group
		r.lists = append(r.lists, &listRun{group: group, rank: i, from: r.checkpoint.from(group, r.config.Overlap), report: &r.report.Groups[i]})
		switch checked, lost := r.checkpoint.Groups[group].Checked, r.now.Add(-retention); {
		case checked.IsZero(): // it was left out until now, perhaps
			r.checkpoint.Whole = time.Time{}
		case checked.Before(lost):
			r.report.Gaps = append(r.report.Gaps, Gap{Group: group, From: checked, To: lost})
		}
	}
	if restart {
		return r.save(ctx)
	}
	return nil
}

// findIntegrations asks for the integrations, if it is time to.
func (r *run) findIntegrations(ctx context.Context) error {
	age := r.now.Sub(r.checkpoint.Asked)
	if known := r.checkpoint.Integrations; len(known) > 0 && age >= 0 && age < r.config.IntegrationsFor {
		r.integrations = known
		return nil
	}
	ids, err := safecall.Value(func() ([]string, error) { return r.config.Integrations(ctx) })
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return errors.New("there is none")
	}
	r.integrations, r.checkpoint.Asked = slices.Compact(slices.Sorted(slices.Values(ids))), r.now
	return nil
}

// list finds out what was missed. A group that cannot be listed keeps no other
// from it.
func (r *run) list(ctx context.Context) error {
	if err := r.listDeliveries(ctx); err != nil {
		return err
	}
	if r.isShort() {
		r.report.Short, r.report.Groups = true, nil
		return nil
	}
	// Before anything is accepted: a run that is killed then leaves less in the log to see.
	if err := r.wholeNext(ctx); err != nil {
		return err
	}
	for _, l := range r.lists {
		if err := r.listGroup(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// complete records what was done in the checkpoint, and returns what was not.
func (r *run) complete(ctx context.Context) error {
	var failed []error
	for _, l := range r.lists {
		switch {
		case l.complete && l.blocked.IsZero():
			r.checkpoint.complete(l.group, l.newest, r.now)
		case l.complete:
			r.checkpoint.block(l.group, l.blocked)
		}
		if err := l.report.Err; err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", l.group, err))
		}
	}
	if r.deliveries.complete && r.deliveries.blocked.IsZero() {
		r.checkpoint.Deliveries = later(r.checkpoint.Deliveries, earlier(r.deliveries.newest, r.now))
	}
	if err := r.deliveries.report.Err; err != nil {
		failed = append(failed, err)
	}
	if len(failed) == 0 {
		r.checkpoint.Completed = r.now
	}
	if len(failed) == 0 && !r.report.Short && r.wholeEvery > 0 {
		r.checkpoint.Outages = r.outages
		if len(r.report.Gaps) == 0 {
			r.checkpoint.Whole = r.now
		}
	}
	return errors.Join(append(failed, r.save(ctx))...)
}
