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
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [Config].
const (
	defaultOverlap  = time.Hour
	defaultParallel = 4
)

const (
	// retention is the time for which the platform keeps events and deliveries. API section:
	// "Limits".
	retention = 30 * 24 * time.Hour

	// integrationsFor is the time for which the integrations of a clinic are cached.
	integrationsFor = 24 * time.Hour

	// leaseTTL is the longest time for which a dead replica prevents others from reconciling
	// its clinic.
	leaseTTL = time.Minute
)

// Config configures [Clinics]. Environment, Inbox, List and Open are required. All other
// fields have a default.
type Config struct {
	// Environment is the environment of the clinics, as in [webhook.HandlerConfig]. Names of
	// checkpoints begin with it.
	Environment api.Environment

	// Inbox is the inbox of the webhooks. It also receives the missed events and stores the
	// checkpoints.
	Inbox Inbox

	// List returns up to limit clinic IDs after the ID after, in byte order. Fewer than limit
	// mean the end of the list. Use accounts.Accounts.Clinics for the clinics of all connected
	// users, or [ClinicIDs].
	List func(ctx context.Context, after string, limit int) ([]string, error)

	// Open returns the access to the events of a clinic. It is called once per run. The client
	// must wait for budget, which is Budget, before each attempt.
	Open func(ctx context.Context, clinicID string, budget api.Limiter) (Clinic, error)

	// Budget limits the calls to the platform, to leave the rest of the platform's limit to
	// your other calls. An example is a limiter of 1,000 requests in 5 minutes. Each replica
	// has its own. Nil means no limit besides the limit of the client. A pass takes as
	// long as the limits require: see "Limits".
	Budget api.Limiter

	// Parallel is the maximum number of clinics in progress. It applies separately to the
	// clinics of a pass and to retried clinics. 0 means 4.
	Parallel int

	// Groups are the groups to list. Nil means all. Leave out groups outside the scope of your
	// tokens.
	Groups []events.Group

	// FirstRun is the time covered by the first run over a clinic, and by the first run with a
	// new integration. 0 means 30 days, the maximum of the platform, because a new inbox has
	// missed everything.
	FirstRun time.Duration

	// Overlap is the time before the newest event of the last run that is listed again, for
	// events that the platform lists late. 0 means 1 hour. It costs pages, but no event is
	// read twice.
	Overlap time.Duration

	// Logger receives a record of each run: its [Report], and the reason of a failure. Nil
	// logs nothing.
	Logger *slog.Logger

	// Observer is called after every run, for traces, counters and alerts.
	Observer Observer

	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// Clinic gives one run access to one clinic.
type Clinic struct {
	// Events reads the events of the platform. It is the Events field of a client with the
	// token of a user of the clinic. The token needs the scopes of all groups. The client
	// waits for the rate limit and retries transient failures.
	Events events.Service

	// Integrations returns the IDs of the integrations that send webhooks of the clinic to
	// this inbox. The result is cached for 24 hours, so missed events of a new integration are
	// found up to a day later. Use [Integrations] if you know the IDs.
	//
	// Event lists do not name the integration of an event. Webhooks do, and it is part of the
	// [webhook.Key]. GET /clinic returns the ID of the clinic's own integration. The empty ID
	// stands for webhooks without an integration. Leave out an integration with a revoked key,
	// because it receives no webhooks. The text of an error is logged.
	Integrations func(context.Context) ([]string, error)
}

// Observer observes the runs of [Clinics]. Nil functions are not called. Each call has its own
// goroutine. A panic is logged and has no other effect.
type Observer struct {
	// RunEnd is called after a run with its result, also if the run was skipped. See
	// [Report].Skipped.
	RunEnd func(context.Context, Report, error)
}

// safe returns o without nil functions. Panics of its functions are logged.
func (o Observer) safe(logger *slog.Logger) Observer {
	end := o.RunEnd
	if end == nil {
		return Observer{RunEnd: func(context.Context, Report, error) {}}
	}
	return Observer{RunEnd: func(ctx context.Context, report Report, err error) {
		safecall.Observe(ctx, logger, func() { end(ctx, report, err) })
	}}
}

// ClinicIDs returns a [Config].List for fixed clinic IDs.
func ClinicIDs(ids ...string) func(ctx context.Context, after string, limit int) ([]string, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	return func(_ context.Context, after string, limit int) ([]string, error) {
		first, known := slices.BinarySearch(ids, after)
		if known {
			first++
		}
		return ids[first:min(first+limit, len(ids))], nil
	}
}

// Integrations returns a [Clinic].Integrations for fixed IDs.
func Integrations(ids ...string) func(context.Context) ([]string, error) {
	ids = slices.Clone(ids)
	return func(context.Context) ([]string, error) { return ids, nil }
}

func (c Config) withDefaults() (Config, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	c.Overlap = cmp.Or(c.Overlap, defaultOverlap)
	c.Parallel = cmp.Or(c.Parallel, defaultParallel)
	c.Inbox = safeInbox{c.Inbox}
	if c.Groups == nil {
		c.Groups = events.Groups()
	}
	c.Logger = safecall.Logger(c.Logger)
	c.Observer = c.Observer.safe(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func (c Config) validate() error {
	problem := func(field, reason string) error {
		return &api.ArgumentError{Field: "reconcile.Config." + field, Reason: reason}
	}
	switch {
	case c.Inbox == nil:
		return problem("Inbox", "is missing")
	case c.List == nil:
		return problem("List", "is missing")
	case c.Open == nil:
		return problem("Open", "is missing")
	case c.Parallel < 0:
		return problem("Parallel", "is negative")
	case c.FirstRun < 0:
		return problem("FirstRun", "is negative")
	case c.Overlap < 0:
		return problem("Overlap", "is negative")
	case c.Groups != nil && len(c.Groups) == 0:
		return problem("Groups", "is empty")
	}
	for _, group := range c.Groups {
		if !slices.Contains(events.Groups(), group) {
			return problem("Groups", fmt.Sprintf("contains %q, which is not a group", group))
		}
	}
	if err := c.Environment.Validate(); err != nil {
		return problem("Environment", "is invalid: "+err.Error())
	}
	return nil
}
