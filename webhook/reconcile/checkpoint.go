package reconcile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Inbox is a [webhook.Inbox] for [Clinics]. The inboxes of this module implement it.
//
// It stores checkpoints, the state of [Clinics] between runs. A claim on a checkpoint lets
// only one replica run at a time. A checkpoint has a name, a holder while it is claimed, and a
// state of at most 64 KB. The state contains neither patient data nor secrets. Claims expire
// by the clock of the storage.
type Inbox interface {
	webhook.Inbox

	// Missing returns the keys that were never accepted, in their order, without repeats. A
	// key counts as accepted if Accept would report a duplicate, regardless of the state of
	// the event. It is called with up to 300 keys. Accept recognizes an event that arrives
	// after the call.
	Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error)

	// ClaimCheckpoint claims a checkpoint for ttl, and returns the last saved state, or nil. A
	// second claim of the same holder extends the first. ClaimCheckpoint fails with
	// [engine.ErrCheckpointHeld] while another holder has the checkpoint.
	ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) (state []byte, err error)

	// SaveCheckpoint replaces the state durably and extends the claim to ttl from now. If the
	// claim has expired, it saves nothing and returns [engine.ErrCheckpointHeld].
	SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error

	// ReleaseCheckpoint ends the claim of holder. Without a claim it does nothing.
	ReleaseCheckpoint(ctx context.Context, name, holder string) error
}

// safeInbox returns panics of an inbox as errors. Your functions, such as
// [webhook.Work].Order, can panic on an event.
type safeInbox struct{ inbox Inbox }

func (s safeInbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	return safecall.Value(func() (webhook.Receipt, error) { return s.inbox.Accept(ctx, d) })
}

func (s safeInbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	return safecall.Value(func() ([]webhook.Key, error) { return s.inbox.Missing(ctx, keys) })
}

func (s safeInbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	return safecall.Value(func() ([]byte, error) { return s.inbox.ClaimCheckpoint(ctx, name, holder, ttl) })
}

func (s safeInbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	return safecall.Call(func() error { return s.inbox.SaveCheckpoint(ctx, name, holder, state, ttl) })
}

func (s safeInbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	return safecall.Call(func() error { return s.inbox.ReleaseCheckpoint(ctx, name, holder) })
}

// checkpoint is the state of a clinic between runs.
type checkpoint struct {
	// Integrations are the integrations that the checkpoint covers. Asked is the time of the
	// last call for them.
	Integrations []string  `json:"integrations"`
	Asked        time.Time `json:"asked,omitzero"`

	// Since is the start of the first run. Runs ignore older events.
	Since time.Time `json:"since,omitzero"`

	Groups map[events.Group]progress `json:"groups"`

	// Retries are the events that no run has recovered so far. Through is past them.
	Retries []retry `json:"retries,omitempty"`

	// Deliveries is the time of the latest failed attempt that a run has read.
	Deliveries time.Time `json:"deliveries,omitzero"`

	// Completed is the start of the last run that left no work.
	Completed time.Time `json:"completed,omitzero"`

	NoWebhooks NoWebhooks `json:"no_webhooks,omitzero"`
}

// retry is a missed event that the platform did not return or the inbox rejected. The
// checkpoint stores it and moves on, so it blocks no other event. Every run retries it.
type retry struct {
	ID       string       `json:"id"`
	Type     events.Type  `json:"type,omitempty"`
	ClinicID string       `json:"clinic,omitempty"`
	Group    events.Group `json:"group,omitempty"`

	// At is the time of the event, zero if it has none. Since is the time of its first
	// failure.
	At    time.Time `json:"at,omitzero"`
	Since time.Time `json:"since"`

	// Integrations are the integrations that missed the event.
	Integrations []string `json:"integrations"`

	// Failures is the number of runs that failed to recover it.
	Failures int `json:"failures"`
}

// progress is the progress of a group.
type progress struct {
	// Through is a time by the platform's clock, because the clock of this machine can be
	// wrong. All listed events before it are in the inbox or in Retries.
	Through time.Time `json:"through,omitzero"`

	// Checked is the start of the last complete read of the list.
	Checked time.Time `json:"checked,omitzero"`
}

// decode reads the result of encode. An empty state is the state before the first run.
func (c *checkpoint) decode(state []byte) error {
	if len(state) > 0 && json.Unmarshal(state, c) != nil {
		return errors.New("the checkpoint cannot be read: another program uses its name")
	}
	if c.Groups == nil {
		c.Groups = map[events.Group]progress{}
	}
	return nil
}

func (c *checkpoint) encode() ([]byte, error) { return json.Marshal(c) }

// began returns the time of the event, for its age. It returns Since if the event has no time
// or a later one.
func (e *retry) began() time.Time {
	if e.At.IsZero() {
		return e.Since
	}
	return earlier(e.At, e.Since)
}

// retry returns the retry of an event, or nil.
func (c *checkpoint) retry(id string) *retry {
	for i := range c.Retries {
		if c.Retries[i].ID == id {
			return &c.Retries[i]
		}
	}
	return nil
}

// removeRetry removes the retry of an event, if there is one.
func (c *checkpoint) removeRetry(id string) {
	c.Retries = slices.DeleteFunc(c.Retries, func(e retry) bool { return e.ID == id })
}

// maxRetries is the maximum size of the retries of a checkpoint in bytes. If an event does not
// fit, Through of its group stays before it.
const maxRetries = 40 << 10

// addRetry stores a retry, and reports whether it fits.
func (c *checkpoint) addRetry(e retry) bool {
	retries := append(slices.Clone(c.Retries), e)
	encoded, err := json.Marshal(retries)
	if err != nil || len(encoded) > maxRetries {
		return false
	}
	c.Retries = retries
	return true
}

// begin restarts the checkpoint if it does not cover an integration, because this integration
// may have missed events that the others have seen.
func (c *checkpoint) begin(integrations []string, now time.Time, firstRun time.Duration) (restart bool) {
	first := len(c.Integrations) == 0
	for _, id := range integrations {
		restart = restart || !slices.Contains(c.Integrations, id)
	}
	c.Integrations = integrations
	if !restart {
		return false
	}
	var since time.Time
	if firstRun > 0 {
		since = now.Add(-firstRun)
	}
	if first || since.Before(c.Since) {
		c.Since = since
	}
	for group, p := range c.Groups {
		c.Groups[group] = progress{Checked: p.Checked}
	}
	c.Deliveries = time.Time{}
	return true
}

// from returns the time at which the listing of a group may end. Zero means the end of the
// list.
func (c *checkpoint) from(group events.Group, overlap time.Duration) time.Time {
	p := c.Groups[group]
	if p.Through.IsZero() {
		return c.Since
	}
	return later(c.Since, p.Through.Add(-overlap))
}

// advance records that the inbox has all events of a group up to a time.
func (c *checkpoint) advance(group events.Group, at, now time.Time) {
	p := c.Groups[group]
	p.Through = newest(p.Through, at, now)
	c.Groups[group] = p
}

// newest returns the later of two times, but ignores at if it is in the future. The checkpoint
// must not move there, because nothing would be read until then. It must not move to now
// either, because the clock of this machine may be fast.
func newest(known, at, now time.Time) time.Time {
	if at.After(now) {
		return known
	}
	return later(known, at)
}

// complete records a group whose list was read to its end, with all its events recovered.
func (c *checkpoint) complete(group events.Group, newest, now time.Time) {
	c.advance(group, newest, now)
	p := c.Groups[group]
	p.Checked = now
	c.Groups[group] = p
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// arrivals is the evidence of a run about the webhooks of its clinic. All times are of events.
type arrivals struct {
	webhook   time.Time // the newest arrived event
	recovered time.Time // the newest recovered event
	events    int       // number of recovered events
}

// addWebhook records a listed event that had arrived. An event is evidence only if it is newer than
// the last run over its group, because that run has recovered older ones.
func (a *arrivals) addWebhook(e events.Event, last progress, now time.Time) {
	if at := e.CreatedAt.Time; !last.Checked.IsZero() && at.After(last.Through) {
		a.webhook = newest(a.webhook, at, now)
	}
}

// after returns the span after a run.
func (s NoWebhooks) after(a arrivals, now time.Time) NoWebhooks {
	switch {
	case a.events > 0 && !a.webhook.After(a.recovered):
		if s.Runs == 0 {
			s.Since = now
		}
		s.Runs, s.Events = s.Runs+1, s.Events+a.events
	case !a.webhook.IsZero():
		return NoWebhooks{}
	}
	return s
}

// lease is the claim of one run on the checkpoint. A goroutine extends it, because a call to
// the platform may take longer than the claim.
type lease struct {
	config *Config
	name   string // of the checkpoint
	holder string
	ended  chan struct{} // closed when the goroutine has stopped
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	state []byte // the saved state, or the state to save with the next extension
}

// closing is the longest time for storing state after the end of a run's context. It lets a
// program stop within seconds.
const closing = 2 * time.Second

// outlive returns a context for storing state at the end of a run. If ctx has ended, it lasts for
// closing.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}

// errReleased ends the context of a run that is over.
var errReleased = errors.New("reconcile: the run is over")

// claim claims the checkpoint, and returns a context that ends if the claim is lost. Each run
// has its own holder, so that a process does not reconcile a clinic twice at the same time.
func claim(ctx context.Context, c *Config, name string) (context.Context, *lease, error) {
	l := &lease{config: c, name: name, holder: rand.Text(), ended: make(chan struct{})}
	now := time.Now()
	state, err := c.Inbox.ClaimCheckpoint(ctx, name, l.holder, leaseTTL)
	if err != nil {
		return nil, nil, err
	}
	l.state = state
	ctx, l.cancel = context.WithCancelCause(ctx)
	go l.renew(ctx, now)
	return ctx, l, nil
}

// renew extends the claim until the run is over. It ends the run if another replica has
// claimed the checkpoint or may have.
func (l *lease) renew(ctx context.Context, renewed time.Time) {
	defer close(l.ended)
	ticker := time.NewTicker(leaseTTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		l.mu.Lock()
		err := l.write(ctx)
		l.mu.Unlock()
		switch {
		case err == nil:
			renewed = now
		case errors.Is(err, engine.ErrCheckpointHeld):
			l.cancel(err)
			return
		case time.Since(renewed) >= leaseTTL:
			l.cancel(fmt.Errorf("%w, or the claim has expired: %w", engine.ErrCheckpointHeld, err))
			return
		}
	}
}

// save stores the state and extends the claim.
func (l *lease) save(ctx context.Context, state []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = state
	return l.write(ctx)
}

// write saves l.state. The caller has locked l.mu.
func (l *lease) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaseTTL/3)
	defer cancel()
	return l.config.Inbox.SaveCheckpoint(ctx, l.name, l.holder, l.state, leaseTTL)
}

// release releases the claim, also if the context of the run has ended.
func (l *lease) release() {
	l.cancel(errReleased)
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	// The claim expires if this fails.
	_ = l.config.Inbox.ReleaseCheckpoint(ctx, l.name, l.holder)
}
