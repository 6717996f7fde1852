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
	"github.com/dispensary-go/dispensary/internal/safecall"
)

// Defaults of a [Config].
const (
	defaultOverlap    = time.Hour
	defaultParallel   = 4
	defaultWholeEvery = 24 * time.Hour
)

const (
	// retention is the time for which the platform keeps events and deliveries.
	// API section: "Limits".
	retention = 30 * 24 * time.Hour

	// integrationsFor is the time for which the integrations of a clinic are kept.
	integrationsFor = 24 * time.Hour

	// leaseTTL is the longest time for which a replica that died keeps others from reconciling
	// the same clinic.
	leaseTTL = time.Minute
)

// Config sets up [Clinics]. Environment, Inbox, List and Open are required. All other fields
// have a default.
type Config struct {
	// Environment is the environment of the clinics, as in [webhook.HandlerConfig].
	Environment api.Environment

	// Inbox is the inbox of the webhooks. It receives the missed events as well, and it
	// stores the checkpoints.
	Inbox Inbox

	// List returns up to limit clinic IDs after the ID after, in byte order. Fewer than
	// limit are the last. It is accounts.Accounts.Clinics for the clinics of all connected
	// users, or [ClinicIDs].
	List func(ctx context.Context, after string, limit int) ([]string, error)

	// Open returns the means to read the events of a clinic. It is called once per run. The
	// client must wait for budget, which is Budget, before each attempt.
	Open func(ctx context.Context, clinicID string, budget api.Limiter) (Clinic, error)

	// Name is the name of the checkpoint of the rotation. Empty means the name of the
	// environment. The checkpoint of a clinic is named after Name and the clinic's ID.
	Name string

	// Budget limits the calls to the platform, to leave the rest of its limit to others. An
	// example is a limiter of 1,000 requests in 5 minutes. Each replica has its own. Nil
	// means no limit beside the client's own.
	Budget api.Limiter

	// Parallel is the number of clinics that are reconciled at the same time, and the number
	// of clinics that are retried at the same time. 0 means 4.
	Parallel int

	// WholeEvery is the interval at which the event lists of a clinic are read even if
	// there is no sign of a missed event, see "Short runs". All other runs take one call. 0
	// means 24 hours. The maximum is 15 days, because the platform keeps events for 30. If WholeEvery is shorter than the interval of the loop, all runs are whole.
	WholeEvery time.Duration

	// Groups are the groups to list. Nil means all. Leave out groups that the tokens have no
	// scope for.
	Groups []events.Group

	// FirstRun is how far back the first run over a clinic goes, and the first run with an
	// integration that is new. 0 means 30 days, as far as the platform goes: a new inbox
	// has missed everything.
	FirstRun time.Duration

	// Overlap is the time before the newest event of the last run that is listed again, for
	// events that the platform lists late. 0 means 1 hour. It costs pages, but it reads no
	// event twice.
	Overlap time.Duration

	// Logger receives a record of each run: its [Report], and the reason if it failed. Nil
	// logs nothing.
	Logger *slog.Logger

	// Observer is called with every run, for traces, counters and alarms.
	Observer Observer

	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// Clinic is the access of one run to one clinic.
type Clinic struct {
	// Events reads the platform's record. It is the Events field of a client whose token is
	// that of a user of the clinic and may read all groups. The client waits for the rate
	// limit and retries transient failures.
	Events events.Service

	// Integrations returns the IDs of the integrations whose webhooks arrive here for the
	// clinic. The result is kept for 24 hours, so events that were missed for a newer
	// integration are found a day later. See [Integrations] for IDs that are known.
	//
	// Event lists do not name the integration of an event. Webhooks do, and it is part of
	// the [webhook.Key]. GET /clinic returns the ID of the clinic's own integration. The
	// empty ID stands for webhooks without one. Leave out an integration whose key was
	// revoked, because it receives no webhooks. The text of an error is logged.
	Integrations func(context.Context) ([]string, error)
}

// Observer is called with the runs of [Clinics]. Nil functions are not called. Each call has
// its own goroutine. A panic is logged and has no other effect.
type Observer struct {
	// RunEnd is called after a run with its result, also if the run was skipped. See
	// [Report].Skipped.
	RunEnd func(context.Context, Report, error)
}

// safe returns o without nil functions. It logs their panics.
func (o Observer) safe(logger *slog.Logger) Observer {
	end := o.RunEnd
	if end == nil {
		return Observer{RunEnd: func(context.Context, Report, error) {}}
	}
	return Observer{RunEnd: func(ctx context.Context, report Report, err error) {
		safecall.Observe(ctx, logger, func() { end(ctx, report, err) })
	}}
}

// ClinicIDs returns a [Config].List for clinics that are known.
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

// Integrations returns a [Clinic].Integrations for IDs that are known.
func Integrations(ids ...string) func(context.Context) ([]string, error) {
	ids = slices.Clone(ids)
	return func(context.Context) ([]string, error) { return ids, nil }
}

func (c Config) withDefaults() (Config, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	c.Name = cmp.Or(c.Name, c.Environment.String())
	c.Overlap = cmp.Or(c.Overlap, defaultOverlap)
	c.Parallel = cmp.Or(c.Parallel, defaultParallel)
	c.WholeEvery = cmp.Or(c.WholeEvery, defaultWholeEvery)
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
	case c.WholeEvery < 0:
		return problem("WholeEvery", "is negative")
	case c.WholeEvery > retention/2:
		return problem("WholeEvery", "is longer than 15 days: the platform keeps events for 30")
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
