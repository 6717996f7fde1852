package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [Config].
const (
	// DefaultOverlap is how much of what it has listed a [Reconciler] lists again.
	DefaultOverlap = time.Hour

	// DefaultLease is how long a replica that died keeps the others from
	// reconciling.
	DefaultLease = time.Minute
)

// retention is how long the platform keeps events and deliveries.
// API section: "Limits".
const retention = 30 * 24 * time.Hour

// Group is one of the lists that the platform keeps events in, by the last part of
// its path.
// API section: "Events".
type Group string

// The groups of events, in the order in which one thing leads to another.
const (
	ClinicKeys     Group = "clinic_keys"
	Products       Group = "products"
	Patients       Group = "patients"
	TreatmentPlans Group = "treatment_plans"
	Orders         Group = "orders"
)

// Groups returns all groups.
func Groups() []Group { return []Group{ClinicKeys, Products, Patients, TreatmentPlans, Orders} }

// Config is what a [Reconciler] is made of. Environment, Events, Inbox and
// Integrations are required; everything else has a default.
type Config struct {
	// Environment is the one that Events belongs to, as in
	// [webhook.HandlerConfig].
	Environment api.Environment

	// Events reads the platform's record: the Events field of a client whose token
	// may read all groups. The client waits for the rate limit and repeats what
	// fails for a moment.
	Events events.Service

	// Inbox is where webhooks go, and where missed events go, too. It keeps the
	// checkpoint as well.
	Inbox Inbox

	// Integrations returns the ids of the integrations whose webhooks arrive here
	// for the clinic of the token. It is called once in a run; see [Integrations]
	// for ids that are known.
	//
	// Event lists do not say which integration an event would have been sent for,
	// webhooks do, and it is part of the [webhook.Key]. The id of the clinic's own
	// integration is what GET /clinic answers. The empty id stands for webhooks
	// that name none. Leave out an integration whose key was revoked: it is sent
	// nothing. The text of an error is logged.
	Integrations func(context.Context) ([]string, error)

	// IntegrationsFor is how long what Integrations has returned is used without asking
	// again; 0 asks in every run. Events that were missed for an integration that is
	// newer are found once it has been asked for.
	IntegrationsFor time.Duration

	// Name is the name of the checkpoint; empty means that of the environment.
	// Reconcilers with tokens of different clinics need different names, for
	// example the clinic's id.
	Name string

	// Groups are the groups that are listed; nil means all. Leave out what the
	// token has no scope for.
	Groups []Group

	// FirstRun is how far back the first run goes, and the first one with an
	// integration that was not there before. 0 means as far as the platform goes,
	// 30 days: a new inbox has missed all of it.
	FirstRun time.Duration

	// Overlap is how much before the newest event of the last run is listed again,
	// for events that the platform lists late; 0 means [DefaultOverlap]. It costs
	// pages, and reads no event twice.
	Overlap time.Duration

	// MaxBody is how many bytes an event may have, as in [webhook.HandlerConfig];
	// 0 means [webhook.DefaultMaxBody]. A larger one is refused as its webhook
	// would be.
	MaxBody int64

	// Lease is how long the claim on the checkpoint lasts. It is extended while a
	// run goes on, so that it only ends early where a process dies; 0 means
	// [DefaultLease], less than a second is refused.
	Lease time.Duration

	// Logger logs every run: its [Report], and why it failed. Nil logs nothing.
	Logger *slog.Logger

	// Observer watches every run, for traces, counters and alarms.
	Observer Observer

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Observer watches the runs of a [Reconciler]. Nil functions are not called. A
// panic in one is logged and harms nothing.
type Observer struct {
	// RunStart is called before a run. The context that it returns, which has to
	// be made from the one given, is that of the run; nil means the one given.
	RunStart func(context.Context) context.Context

	// RunEnd is called after a run with what Run returns, also if it was skipped:
	// see Report.Skipped.
	RunEnd func(context.Context, Report, error)
}

// Integrations is [Config].Integrations for ids that are known.
func Integrations(ids ...string) func(context.Context) ([]string, error) {
	ids = slices.Clone(ids)
	return func(context.Context) ([]string, error) { return ids, nil }
}

func (c Config) withDefaults() (Config, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	c.Name = cmp.Or(c.Name, c.Environment.String())
	c.Overlap = cmp.Or(c.Overlap, DefaultOverlap)
	c.MaxBody = cmp.Or(c.MaxBody, webhook.DefaultMaxBody)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.Inbox = safeInbox{c.Inbox}
	if c.Groups == nil {
		c.Groups = Groups()
	}
	c.Logger = safecall.Logger(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func problem(field, reason string) error {
	return &api.ArgumentError{Field: "reconcile." + field, Reason: reason}
}

func (c Config) validate() error {
	problem := func(field, reason string) error { return problem("Config."+field, reason) }
	switch {
	case c.Inbox == nil:
		return problem("Inbox", "is missing")
	case c.IntegrationsFor < 0:
		return problem("IntegrationsFor", "is negative")
	case c.FirstRun < 0:
		return problem("FirstRun", "is negative")
	case c.Overlap < 0:
		return problem("Overlap", "is negative")
	case c.MaxBody < 0:
		return problem("MaxBody", "is negative")
	case c.Lease != 0 && c.Lease < time.Second:
		return problem("Lease", "is shorter than a second")
	case c.Groups != nil && len(c.Groups) == 0:
		return problem("Groups", "is empty")
	}
	for _, group := range c.Groups {
		if !slices.Contains(Groups(), group) {
			return problem("Groups", fmt.Sprintf("holds %q, which is no group", group))
		}
	}
	if err := c.Environment.Validate(); err != nil {
		return problem("Environment", "is invalid: "+err.Error())
	}
	return nil
}
