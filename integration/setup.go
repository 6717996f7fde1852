package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Defaults of a [Setup].
const (
	defaultReconcileEvery = time.Hour
	defaultDrain          = 5 * time.Second
	defaultOldestWaiting  = 15 * time.Minute
)

// Setup contains your functions, and settings of the parts with other values than their defaults.
// Leave the fields of the parts empty that Open sets from Config.
type Setup struct {
	// Work configures the handling of webhook events. Work.Handle is required if there is an
	// inbox. It is called from [Integration.Run] on, so it can use the Integration.
	Work webhook.Work

	// Connect configures the browser flow. Without Connect.User there is no browser flow. Open
	// sets LoopbackCookies if all redirect URLs use plain HTTP, as in development.
	Connect connect.Config

	// Accounts configures the accounts: Locate returns the environment of a user, and
	// Tokens.Verify rejects foreign accounts. Locate is required if there are several
	// applications.
	Accounts accounts.Config

	// OAuth contains shared settings of the OAuth clients of all applications.
	OAuth oauth.Config

	// Webhooks contains shared settings of all webhook handlers.
	Webhooks webhook.HandlerConfig

	// Reconcile configures the search for missed webhooks in all environments, for example
	// Budget and Observer. Environment, Inbox, List and Open must be empty.
	Reconcile reconcile.Config

	// ReconcileEvery is the interval between passes over all clinics. 0 means 1 hour.
	ReconcileEvery time.Duration

	// DisableReconcile disables the search for missed webhooks. Undelivered webhooks are then
	// lost after 30 days, unless you find them with package reconcile.
	DisableReconcile bool

	// RateLimitStore shares the limits of all applications with a RateLimit, for example a store
	// of package ratelimit/pgstore. If it is nil, a table in the database of Config.Store shares
	// them if that is postgres. Otherwise the limits apply to this process only.
	RateLimitStore ratelimit.Store

	// Processes is the largest number of processes with shared rate limits: see
	// [ratelimit.FleetConfig]. 0 means 10.
	Processes int

	// KeepFresh selects the users whose tokens are refreshed before they expire.
	KeepFresh tokens.KeepFreshPolicy

	// Operations configures the pages for operators, [Integration.Operations]: Name, Location,
	// Observer, ReadOnly, TrustedOrigins, Hosts and Now. An empty Name means the environments, such as
	// "us/production, ca/production". Open sets Production and the other fields.
	Operations admin.Config

	// Outage is called when the webhooks of an environment have failed for some time, and when
	// they work again: see [webhook.AlarmConfig].Notify. The delivery logs of clinics with
	// connected users confirm an outage of rejected requests. Even if Outage is nil, the
	// integration logs the outage, and looks for missed webhooks after its end. Its clock is
	// Webhooks.Now, for tests.
	Outage func(context.Context, dispensary.Environment, webhook.Outage)

	// Checks are additional checks for /readyz. Open itself uses the names "store" and "inbox",
	// and "refresh", "reconcile" and "alarm" before an environment, such as "alarm us/sandbox".
	Checks map[string]health.Check

	// Drain is the time for which [Integration.Serve] continues to serve after /readyz has
	// started to fail. A load balancer must notice the failure in this time, so make it longer
	// than the check interval times the number of failures. 0 means 5 seconds. A negative value
	// means no wait.
	Drain time.Duration

	// OldestWaiting is the longest wait of an event in the inbox before its check in /readyz is
	// degraded. 0 means 15 minutes.
	OldestWaiting time.Duration

	// Telemetry observes all parts, in addition to the observers of Work, Accounts, OAuth,
	// Webhooks and Reconcile. For spans and metrics of OpenTelemetry, set it to the result of
	// dispensaryotel.New. Nil means no telemetry.
	Telemetry Telemetry

	// Logger is the logger of all parts without their own. Nil disables logging.
	Logger *slog.Logger
}

// check reports missing functions, invalid values, and fields that Open sets from c.
func (s Setup) check(c Config) error {
	var problems []error
	problem := func(field, reason string) {
		problems = append(problems, &api.ArgumentError{Field: "integration.Setup." + field, Reason: reason})
	}
	if !c.Inbox.IsZero() && s.Work.Handle == nil {
		problem("Work.Handle", "is nil, but the inbox needs it")
	}
	if s.Accounts.Locate == nil && len(c.Applications) > 1 {
		problem("Accounts.Locate", "is nil, but several applications need it to find the environment of a user")
	}
	if s.Connect.User != nil && len(c.StateKeys) == 0 {
		problems = append(problems, c.problem(c.name("state_keys"), "is empty, but the browser flow of Connect.User needs it"))
	}
	if s.ReconcileEvery < 0 {
		problem("ReconcileEvery", "is negative")
	}
	if s.OldestWaiting < 0 {
		problem("OldestWaiting", "is negative")
	}
	if s.Processes < 0 {
		problem("Processes", "is negative")
	}
	for _, part := range []struct {
		field string
		given bool
	}{
		{"Work.Start", s.Work.Start != nil}, {"Connect.Connections", s.Connect.Connections != nil}, {"Connect.StateKeys", s.Connect.StateKeys != nil},
		{"Accounts.Applications", s.Accounts.Applications != nil}, {"Accounts.Tokens.Store", s.Accounts.Tokens.Store != nil},
		{"OAuth.Site", s.OAuth.Site != dispensary.Site{}}, {"OAuth.ClientID", s.OAuth.ClientID != ""},
		{"OAuth.ClientSecret", !s.OAuth.ClientSecret.IsZero()}, {"OAuth.RedirectURL", s.OAuth.RedirectURL != ""}, {"OAuth.Scopes", s.OAuth.Scopes != nil},
		{"OAuth.Limiter", s.OAuth.Limiter != nil},
		{"Webhooks.Environment", s.Webhooks.Environment != ""}, {"Webhooks.Secrets", s.Webhooks.Secrets != nil},
		{"Webhooks.Challenge", !s.Webhooks.Challenge.IsZero()}, {"Webhooks.Tenant", s.Webhooks.Tenant != nil}, {"Webhooks.Inbox", s.Webhooks.Inbox != nil},
		{"Operations.Engine", s.Operations.Engine != nil}, {"Operations.Alarms", s.Operations.Alarms != nil}, {"Operations.Accounts", s.Operations.Accounts != nil},
		{"Operations.Reconcilers", s.Operations.Reconcilers != nil},
		{"Reconcile.Environment", s.Reconcile.Environment != ""},
		{"Reconcile.Inbox", s.Reconcile.Inbox != nil}, {"Reconcile.List", s.Reconcile.List != nil}, {"Reconcile.Open", s.Reconcile.Open != nil},
	} {
		if part.given {
			problem(part.field, "must be left empty, because Open sets it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Checks)) {
		if isBuiltIn(name) {
			problem("Checks", fmt.Sprintf("contains %q, the name of a check of Open", name))
		}
	}
	return errors.Join(problems...)
}

// The names of the checks of Open. The last three precede an environment.
const (
	checkStore     = "store"
	checkInbox     = "inbox"
	checkRefresh   = "refresh "
	checkReconcile = "reconcile "
	checkAlarm     = "alarm "
)

// isBuiltIn reports whether a check of Open may have the name.
func isBuiltIn(name string) bool {
	for _, kind := range []string{checkRefresh, checkReconcile, checkAlarm} {
		if environment, ok := strings.CutPrefix(name, kind); ok && dispensary.Environment(environment).Validate() == nil {
			return true
		}
	}
	return name == checkStore || name == checkInbox
}

// Telemetry observes all parts of an integration. The Telemetry of package dispensaryotel
// implements it with OpenTelemetry. It is safe for concurrent use.
type Telemetry interface {
	// Calls returns the observer of the API calls of all clients and of token requests.
	Calls() observe.Observer

	// Tokens returns the observer of stored tokens.
	Tokens() tokens.Observer

	// Work, Webhook and Reconcile return their argument with observation added. They call
	// its own observer as well.
	Work(webhook.Work) webhook.Work
	Webhook(webhook.HandlerConfig) webhook.HandlerConfig
	Reconcile(reconcile.Config) reconcile.Config

	// WatchInbox observes the number and age of the events in an inbox until stop is called.
	WatchInbox(name string, inbox engine.Engine) (stop func() error, err error)
}

// observed returns s with its Telemetry added to the parts that Open does not complete first.
func (s Setup) observed() Setup {
	t := s.Telemetry
	if t == nil {
		return s
	}
	s.Work = t.Work(s.Work)
	s.OAuth.Observers = append(slices.Clip(s.OAuth.Observers), t.Calls())
	s.Accounts.Tokens.Observers = append(slices.Clip(s.Accounts.Tokens.Observers), t.Tokens())
	own := s.Accounts.Options
	s.Accounts.Options = func(environment dispensary.Environment) (options []dispensary.Option) {
		if own != nil {
			options = slices.Clip(own(environment))
		}
		return append(options, dispensary.WithObserver(t.Calls()))
	}
	return s
}

// observedWebhooks returns c with the Telemetry added, after the alarms and the observer of c.
func (i *Integration) observedWebhooks(c webhook.HandlerConfig, alarms ...*webhook.Alarm) webhook.HandlerConfig {
	c.Observer = observedBy(c.Observer, alarms...)
	if i.setup.Telemetry != nil {
		c = i.setup.Telemetry.Webhook(c)
	}
	return c
}

// watchInbox observes the inbox under the names of all applications.
func (i *Integration) watchInbox() error {
	if i.setup.Telemetry == nil {
		return nil
	}
	var names []string
	for _, application := range i.config.Applications {
		names = append(names, application.Name())
	}
	stop, err := i.setup.Telemetry.WatchInbox(strings.Join(names, " "), i.Inbox)
	if err == nil {
		i.unwatch = sync.OnceValue(stop)
	}
	return err
}
