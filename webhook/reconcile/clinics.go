package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Clinics finds the events of all clinics of an environment whose webhooks never arrived. It
// accepts them into the same [Inbox] under the same [webhook.Key]. It is safe for concurrent
// use.
//
// [Clinics.Loop] reconciles all clinics repeatedly. [Clinics.Run] reconciles one clinic once,
// for a program with its own scheduler.
//
// A pass of the loop reconciles the clinics in the order of their IDs, so the next clinic is
// always the one with the oldest run. A checkpoint in the inbox, named after the environment,
// stores the position. A restarted program resumes there, and replicas share one pass. If a
// crash interrupts a run, its clinic stays claimed for up to a minute and has its next turn in
// the next pass.
//
// A failing clinic blocks no other clinic. It is retried after 1 minute, 2 minutes and so on
// up to the interval, outside of the pass.
type Clinics struct {
	config  Config
	trigger chan struct{}

	mu         sync.Mutex
	rotation   rotation // as last seen by this process
	running    int
	failing    map[string]*FailingClinic
	conditions map[string]condition
	left       []string // clinics with runs interrupted by the end of the loop

	// Used only by the goroutine of the pass.
	turns []turn // taken from the pass, but not begun
	again bool   // a pass was requested because of an outage
}

// New returns Clinics. It makes no call. An error is an [*api.ArgumentError].
func New(c Config) (*Clinics, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Clinics{config: c, trigger: make(chan struct{}, 1), failing: map[string]*FailingClinic{}, conditions: map[string]condition{}}, nil
}

// Format prints the type only.
func (c *Clinics) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "reconcile.Clinics") }

// Loop makes one pass over all clinics in each interval, until ctx ends. If a pass takes
// longer, because of the rate limit or [Config].Budget, the next one follows at once. One hour
// is a good interval. Failures are logged and passed to [Observer].RunEnd.
//
// Loop returns the cause of the end of ctx, or an [*api.ArgumentError] if interval is not
// positive. Every replica can call it.
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

// turn is the turn of one clinic in a pass.
type turn struct {
	clinicID string
	since    time.Time // a clinic reconciled since this time is done
}

// work reconciles the clinics returned by next, up to Parallel at a time. If next has no
// clinic, it returns the wait until the next call.
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

// reconcile runs the turn of a clinic.
func (c *Clinics) reconcile(ctx context.Context, one turn, interval time.Duration) {
	c.count(1)
	defer c.count(-1)
	now := c.config.Now()
	report, err := c.run(ctx, one.clinicID, max(now.Sub(one.since), 0))
	c.endTurn(one.clinicID, report, err, ctx.Err() != nil, now, interval)
}

// Run reconciles one clinic once. It accepts the missed events of all groups into the inbox,
// oldest first.
//
// An error means that work is left, and [GroupReport].Err has the reason for each group. The
// next run resumes at the checkpoint and reads no accepted event again. The error is
// [engine.ErrCheckpointHeld] if another run over the clinic is in progress, or if another replica
// took over because this one was delayed for too long. It is an [*api.AccountChangedError] if
// the client of the clinic acts for another clinic.
//
// A lost event is not an error. See [Report].Gaps.
func (c *Clinics) Run(ctx context.Context, clinicID string) (Report, error) {
	if clinicID == "" {
		return Report{}, &api.ArgumentError{Field: "clinicID", Reason: "is empty"}
	}
	return c.run(ctx, clinicID, 0)
}

// run executes a run. It skips the work if the last complete run began less than fresh ago.
func (c *Clinics) run(ctx context.Context, clinicID string, fresh time.Duration) (Report, error) {
	ctx = apikit.WithPriority(ctx, api.PriorityReconcile)
	one := &run{config: &c.config, clinicID: clinicID, now: c.config.Now(), missed: map[string]*missedEvent{}}
	one.report.Name, one.report.Started = c.config.Environment.String()+"/"+clinicID, one.now
	err := one.execute(ctx, fresh)
	one.report.Completed, one.report.Retries = one.checkpoint.Completed, len(one.checkpoint.Retries)
	one.report.NoWebhooks = one.checkpoint.NoWebhooks
	one.report.Duration = c.config.Now().Sub(one.now)
	one.report.log(ctx, c.config.Logger, err, c.disconnected(clinicID))
	c.config.Observer.RunEnd(ctx, one.report, err)
	return one.report, err
}

// next returns the next clinic of the pass, or the wait until the next call. It skips failing
// clinics, because nextFailing returns them.
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
		case errors.Is(err, engine.ErrCheckpointHeld): // another replica takes turns
			return turn{}, time.Second
		case ctx.Err() != nil: // the loop ends
		case err != nil:
			c.config.Logger.LogAttrs(ctx, slog.LevelError, "could not find the next clinic to reconcile",
				slog.String("name", c.config.Environment.String()), slog.String("reason", err.Error()))
			return turn{}, minPause
		case wait > 0:
			return turn{}, wait
		}
	}
	return turn{}, 0
}

// Trigger starts a pass of [Clinics.Loop] now, or after the current pass. Call it after the
// webhook endpoint was enabled again and after the inbox was restored from a backup, to find
// the missed events sooner. It does not wait for the pass.
func (c *Clinics) Trigger() {
	select {
	case c.trigger <- struct{}{}:
	default: // a pass is already requested
	}
}

// RunAfterOutage calls [Clinics.Trigger] at the end of an outage, because the platform may
// have dropped webhooks during the outage. Call it in [webhook.AlarmConfig].Notify.
func (c *Clinics) RunAfterOutage(o webhook.Outage) {
	if o.Over {
		c.Trigger()
	}
}

// take takes the next turns of the pass, or returns the wait until there are any.
func (c *Clinics) take(ctx context.Context, interval time.Duration) (time.Duration, error) {
	select {
	case <-c.trigger:
		c.again = true
	default:
	}
	var ids []string
	var wait time.Duration
	unlisted := func(string) bool { return false }
	r, err := c.update(ctx, func(ctx context.Context, r *rotation) (err error) {
		r.Again = r.Again || c.again
		ids, wait, err = r.take(c.config.Now(), interval, c.config.Parallel, func(after string, limit int) ([]string, error) {
			page, err := safecall.Value(func() ([]string, error) { return c.config.List(ctx, after, limit) })
			unlisted = func(id string) bool {
				return id > after && (len(page) < limit || id <= page[len(page)-1]) && !slices.Contains(page, id)
			}
			return page, err
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	c.again = false
	for _, id := range ids {
		c.turns = append(c.turns, turn{id, r.Began})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rotation = r
	// Clinics without a user are no longer failing.
	maps.DeleteFunc(c.failing, func(id string, _ *FailingClinic) bool { return unlisted(id) })
	return wait, nil
}

// giveBack returns the unused turns at the end of the loop, for another replica or the next
// start. If it fails, these clinics have their next turn in the next pass.
func (c *Clinics) giveBack() {
	c.mu.Lock()
	left := c.left
	c.left = nil
	c.mu.Unlock()
	for _, one := range c.turns {
		left = append(left, one.clinicID)
	}
	c.turns = nil
	if len(left) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	for {
		_, err := c.update(ctx, func(_ context.Context, r *rotation) error {
			r.Left = append(r.Left, left...)
			return nil
		})
		if !errors.Is(err, engine.ErrCheckpointHeld) {
			return
		}
		select { // another replica takes turns briefly
		case <-time.After(closing / 20):
		case <-ctx.Done():
			return
		}
	}
}

// update changes the rotation while it is claimed.
func (c *Clinics) update(ctx context.Context, change func(context.Context, *rotation) error) (r rotation, err error) {
	ctx, lease, err := claim(ctx, &c.config, rotationName(c.config.Environment.String()))
	if err != nil {
		return r, err
	}
	defer lease.release()
	if err := r.decode(lease.state); err != nil {
		return r, err
	}
	if err := change(ctx, &r); err != nil {
		return r, err
	}
	state, err := json.Marshal(r)
	if err != nil || bytes.Equal(state, lease.state) {
		return r, err
	}
	return r, lease.save(ctx, state)
}

// rotation is the progress of the pass over all clinics. The zero value is the state before
// the first pass.
type rotation struct {
	// Began is the start of the current or last pass. Before is the start of the pass before
	// it.
	Began  time.Time `json:"began"`
	Before time.Time `json:"before,omitzero"`

	// After is the last clinic whose turn was taken. Done reports whether it is the last
	// clinic of the pass.
	After string `json:"after,omitempty"`
	Done  bool   `json:"done,omitempty"`

	// Left are clinics of the pass whose turn was taken but not used.
	Left []string `json:"left,omitempty"`

	// Again starts the next pass as soon as this one ends.
	Again bool `json:"again,omitempty"`

	// Taken is the time of the last turns.
	Taken time.Time `json:"taken,omitzero"`
}

// rotationName returns the name of a rotation's checkpoint. It is unique, because no clinic has an
// empty ID.
func rotationName(name string) string { return name + "/" }

// decode reads the state of a checkpoint. An empty state changes nothing.
func (r *rotation) decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, r) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	return nil
}

// passing reports whether a pass is in progress.
func (r *rotation) passing() bool { return !r.Began.IsZero() && !r.Done }

// take returns up to limit clinics, or the wait until the next turn. It returns neither at the
// end of a pass.
func (r *rotation) take(now time.Time, interval time.Duration, limit int, list func(after string, limit int) ([]string, error)) ([]string, time.Duration, error) {
	if len(r.Left) > 0 {
		ids := r.Left
		r.Left, r.Taken = nil, now
		return ids, 0, nil
	}
	if since := now.Sub(r.Began); r.Done && !r.Again && since >= 0 && since < interval {
		return nil, interval - since, nil
	}
	next := *r
	if r.Done || r.Began.IsZero() {
		next = rotation{Began: now, Before: r.Began}
	}
	next.Taken = now
	ids, err := list(next.After, limit)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		if id <= next.After {
			return nil, 0, fmt.Errorf("clinics must be listed in ascending order: %q is listed after %q", id, next.After)
		}
		next.After = id
	}
	next.Done = len(ids) < limit
	*r = next
	return ids, 0, nil
}

// CheckpointReader reads checkpoints. The engines of this module implement it.
type CheckpointReader interface {
	// ReadCheckpoint returns the last saved state of a checkpoint, or nil.
	ReadCheckpoint(ctx context.Context, name string) (state []byte, err error)
}

// ReadPass returns when the newest pass over the clinics of an environment began, and when clinics
// last had their turn in it. Both times are zero if no [Clinics.Loop] has run. Unlike
// [Clinics.Stats], it needs no Clinics, so it serves other programs. Errors are those of inbox, and an
// error if another program uses the checkpoint.
func ReadPass(ctx context.Context, inbox CheckpointReader, environment api.Environment) (began, lastTurn time.Time, err error) {
	var r rotation
	state, err := inbox.ReadCheckpoint(ctx, rotationName(environment.String()))
	if err == nil {
		err = r.decode(state)
	}
	return r.Began, r.Taken, err
}
