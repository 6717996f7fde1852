package webhook

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
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [ReconcilerConfig].
const (
	// DefaultOverlap is how much of what it has walked a [Reconciler] walks
	// again.
	DefaultOverlap = time.Hour

	// DefaultReconcilerLease is how long a replica that died keeps the others
	// from reconciling.
	DefaultReconcilerLease = time.Minute
)

// retained is how long the platform keeps events and deliveries.
// API section: "Limits".
const retained = 30 * 24 * time.Hour

// EventGroup is one of the lists that the platform keeps events in, by the last
// part of its path.
// API section: "Events".
type EventGroup string

// The groups of events, in the order in which one thing leads to another.
const (
	GroupClinicKeys     EventGroup = "clinic_keys"
	GroupProducts       EventGroup = "products"
	GroupPatients       EventGroup = "patients"
	GroupTreatmentPlans EventGroup = "treatment_plans"
	GroupOrders         EventGroup = "orders"
)

// EventGroups returns all groups.
func EventGroups() []EventGroup {
	return []EventGroup{GroupClinicKeys, GroupProducts, GroupPatients, GroupTreatmentPlans, GroupOrders}
}

// ReconcilerConfig is what a [Reconciler] is made of. Environment, Events, Inbox
// and Integrations are required; everything else has a default.
type ReconcilerConfig struct {
	// Environment is the one that Events belongs to, as in [Config].
	Environment api.Environment

	// Events reads the platform's record: the Events field of a client whose
	// token may read all groups. It is the client that waits for the rate limit
	// and repeats what fails for a moment.
	Events events.Service

	// Inbox is where webhooks go, and where missed events go, too. It keeps the
	// checkpoint as well.
	Inbox Reconcilable

	// Integrations returns the ids of the integrations whose webhooks arrive
	// here for the clinic of the token. It is asked once in a run; see
	// [Integrations] for ids that are known.
	//
	// Event lists do not say which integration an event would have been sent
	// for, webhooks do, and it is part of the [Key]. The id of the clinic's own
	// integration is what GET /clinic answers. The empty id stands for webhooks
	// that name none. Leave out an integration whose key was revoked: it is sent
	// nothing. The text of an error is logged.
	Integrations func(context.Context) ([]string, error)

	// Name is the name of the checkpoint; empty means that of the environment.
	// Reconcilers with tokens of different clinics need different names, for
	// example the clinic's id.
	Name string

	// Groups are the groups that are walked; nil means all. Leave out what the
	// token has no scope for.
	Groups []EventGroup

	// FirstRun is how far back the first run goes, and the first one with an
	// integration that was not there before. 0 means as far as the platform
	// goes, 30 days: to an inbox that is new, all of it is missed.
	FirstRun time.Duration

	// Overlap is how much before the newest event of the last run is walked
	// again, for events that the platform lists late; 0 means [DefaultOverlap].
	// It costs pages, and reads no event twice.
	Overlap time.Duration

	// MaxBody is how many bytes an event may have, as in [Config]; 0 means
	// [DefaultMaxBody]. A larger one is refused as its webhook would be.
	MaxBody int64

	// Lease is how long the claim on the checkpoint lasts. It is extended while
	// a run goes on, so that it only ends early where a process does; 0 means
	// [DefaultReconcilerLease], less than a second is refused.
	Lease time.Duration

	// Logger is told of every run: its [Report], and why it failed. Nil means
	// silence.
	Logger *slog.Logger

	// Observe is called after every run with what Run returns, for counters and
	// alarms; nil means that nobody is.
	Observe func(context.Context, Report, error)

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Integrations is [ReconcilerConfig.Integrations] for ids that are known.
func Integrations(ids ...string) func(context.Context) ([]string, error) {
	ids = slices.Clone(ids)
	return func(context.Context) ([]string, error) { return ids, nil }
}

// Reconciler finds the events whose webhooks never arrived, and accepts them
// into the same [Inbox] under the same [Key], so that webhook, repetition and
// recovery are one event. It is safe for concurrent use.
//
// # What a run does
//
// It claims the checkpoint, which is next to the events in the inbox: of several
// replicas one works at a time. It walks the log of failed deliveries and the
// lists of events, the newest first, back to where the last run began, and asks
// the inbox which of them it has not seen. What was missed is accepted then, the
// oldest first, over all groups: a patient comes before their plan. The data is
// read event by event, as lists have none, unless the log has it.
//
// So a run takes as many calls as there are pages, and at most one more for each
// missed event. They are made one after the other, through the client, whose
// limiter they wait for. A run that is broken off, by an error, a restart or the
// end of ctx, costs nothing but the pages: what the inbox has seen is not read
// again.
//
// An event that the inbox refuses, while it takes others, is a [Gap]. It keeps no
// other from being recovered, and every run tries it again, as long as the platform
// has it.
//
// Order is kept as far as there is any: see [Work.Order] and [Work.Stale] for
// what a webhook that came in time and an older event that was recovered are to
// each other.
//
// # What it relies on
//
// That lists are sorted by time where that is asked for; one that is not is
// walked to its end. That every replica's checkpoint and events are in one
// inbox. It does not rely on the clock of the machine for what it looks at,
// because a wrong clock is a reason for webhooks to fail.
//
// Assumption: webhooks about products, which belong to no clinic, name the
// integration like all others. Where the log of deliveries, or the inbox, tells
// that an event came without, it is taken as that.
//
// API sections: "Events", "Webhooks" 4, "Webhook deliveries".
type Reconciler struct {
	config ReconcilerConfig
	wake   chan struct{}
}

// NewReconciler returns a reconciler. It sends nothing.
func NewReconciler(c ReconcilerConfig) (*Reconciler, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Reconciler{config: c, wake: make(chan struct{}, 1)}, nil
}

func (c ReconcilerConfig) withDefaults() (ReconcilerConfig, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	orDefault(&c.Name, c.Environment.String())
	orDefault(&c.Overlap, DefaultOverlap)
	orDefault(&c.MaxBody, DefaultMaxBody)
	orDefault(&c.Lease, DefaultReconcilerLease)
	c.Inbox = guardedInbox{c.Inbox}
	if c.Groups == nil {
		c.Groups = EventGroups()
	}
	c.Logger = safecall.Logger(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func (c ReconcilerConfig) validate() error {
	switch {
	case c.Events == (events.Service{}):
		return errors.New("webhook: ReconcilerConfig.Events is missing")
	case c.Inbox == nil:
		return errors.New("webhook: ReconcilerConfig.Inbox is missing")
	case c.Integrations == nil:
		return errors.New("webhook: ReconcilerConfig.Integrations is missing")
	case c.FirstRun < 0:
		return errors.New("webhook: ReconcilerConfig.FirstRun is negative")
	case c.Overlap < 0:
		return errors.New("webhook: ReconcilerConfig.Overlap is negative")
	case c.MaxBody < 0:
		return errors.New("webhook: ReconcilerConfig.MaxBody is negative")
	case c.Lease != 0 && c.Lease < time.Second:
		return errors.New("webhook: ReconcilerConfig.Lease is shorter than a second")
	case c.Groups != nil && len(c.Groups) == 0:
		return errors.New("webhook: ReconcilerConfig.Groups is empty")
	}
	for _, group := range c.Groups {
		if !slices.Contains(EventGroups(), group) {
			return fmt.Errorf("webhook: ReconcilerConfig.Groups: there is no group %q", group)
		}
	}
	if err := c.Environment.Validate(); err != nil {
		return fmt.Errorf("webhook: ReconcilerConfig.Environment: %w", err)
	}
	return nil
}

// Format prints the type only.
func (r *Reconciler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "webhook.Reconciler") }
