package integration

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Defaults of a [Setup].
const (
	defaultReconcileEvery = time.Hour
	defaultDrain          = 5 * time.Second
	defaultOldestWaiting  = 15 * time.Minute
)

// Setup is what a [Config] cannot hold: the program's functions, and those settings of
// the parts that differ from their defaults. Fields of the parts that Config says must be
// left empty.
type Setup struct {
	// Work says how the events of webhooks are handled. Work.Handle is required where
	// there is an inbox. It is called from [Integration.Run] on, so that it can use the
	// Integration that Open returns.
	Work webhook.Work

	// Connect sets up the browser flow: User is required for it, and without User there
	// is none. Cookies for loopback are chosen where all redirect addresses are plain
	// HTTP, as in development.
	Connect connect.Config

	// Accounts says which environment a user belongs to, and which accounts may be connected.
	// Locate is required where there are several applications.
	Accounts accounts.Config

	// OAuth is what the applications have in common beside their credentials.
	OAuth oauth.Config

	// Webhooks is what the handlers of webhooks have in common.
	Webhooks webhook.HandlerConfig

	// Reconcile adjusts how missed webhooks are found in all environments, for example its
	// Budget, WholeEvery and Observer. Environment, Name, Inbox, List and Open must be empty.
	Reconcile reconcile.Config

	// ReconcileEvery is the interval at which all clinics are reconciled. 0 means 1 hour.
	ReconcileEvery time.Duration

	// DisableReconcile disables reconciling. Webhooks that the platform cannot deliver are
	// lost then after 30 days, unless the program finds them itself with package reconcile.
	DisableReconcile bool

	// RateLimitStore shares the rate limits of all applications that have one, for example a
	// store of package ratelimit/redisstore. Nil means a table in the database of Config.Store
	// if that is postgres, and otherwise limits of this process only.
	RateLimitStore ratelimit.Store

	// Processes is the largest number of processes that share the rate limits: see
	// [ratelimit.FleetConfig]. 0 means 10.
	Processes int

	// KeepFresh says whose tokens are refreshed before they end.
	KeepFresh tokens.KeepFreshPolicy

	// Operations configures the page for operators, [Integration.Operations]: Name, Location,
	// Observer, TrustedOrigins, Hosts and Now. An empty Name means the environments, such as
	// "us/production, ca/production". Open marks production and sets the other fields.
	Operations admin.Config

	// Outage is called when the webhooks of an environment have failed for some time,
	// and when they work again: see [webhook.AlarmConfig].Notify. It may be nil: the
	// log has it, and missed webhooks are looked for in any case.
	Outage func(context.Context, dispensary.Environment, webhook.Outage)

	// Checks are run for /readyz beside those of the integration.
	Checks map[string]health.Check

	// Drain is the time for which [Integration.Serve] goes on serving after /readyz has
	// started to fail. It must be longer than a load balancer needs to notice, which is its
	// interval times its number of failures. 0 means 5 seconds, and a negative value
	// means none.
	Drain time.Duration

	// OldestWaiting is for how long an event may wait until /readyz says so; 0 means
	// 15 minutes.
	OldestWaiting time.Duration

	// MinFreeBytes is the smallest free space of the disk with which an inbox in SQLite
	// accepts events: see [sqlinbox.Config]. 0 means 64 MiB, and a
	// negative value disables the check. Other inboxes ignore it.
	MinFreeBytes int64

	// Telemetry observes all parts, beside the observers of Work, Accounts, OAuth, Webhooks and
	// Reconcile. For spans and metrics of OpenTelemetry, set it to the result of
	// dispensaryotel.New. Nil observes nothing.
	Telemetry Telemetry

	// Logger is that of all parts that are not given another. Nil logs nothing.
	Logger *slog.Logger
}

// check reports what is missing, and what both config and s say.
func (s Setup) check(c Config) error {
	var problems []error
	problem := func(field, reason string) {
		problems = append(problems, &api.ArgumentError{Field: "integration.Setup." + field, Reason: reason})
	}
	if !c.Inbox.IsZero() && s.Work.Handle == nil {
		problem("Work.Handle", "is nil, and there is an inbox")
	}
	if s.Accounts.Locate == nil && len(c.Applications) > 1 {
		problem("Accounts.Locate", "is nil: with several applications it has to find the one of each user")
	}
	if s.Connect.User != nil && len(c.StateKeys) == 0 {
		problems = append(problems, c.problem(c.name("state_keys"), "is empty, and Connect.User asks for a browser flow"))
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
		{"Connect.Connections", s.Connect.Connections != nil}, {"Connect.StateKeys", s.Connect.StateKeys != nil},
		{"Accounts.Applications", s.Accounts.Applications != nil}, {"Accounts.Tokens.Store", s.Accounts.Tokens.Store != nil},
		{"OAuth.Site", s.OAuth.Site != dispensary.Site{}}, {"OAuth.ClientID", s.OAuth.ClientID != ""},
		{"OAuth.ClientSecret", !s.OAuth.ClientSecret.IsZero()}, {"OAuth.RedirectURL", s.OAuth.RedirectURL != ""}, {"OAuth.Scopes", s.OAuth.Scopes != nil},
		{"OAuth.Limiter", s.OAuth.Limiter != nil},
		{"Webhooks.Environment", s.Webhooks.Environment != ""}, {"Webhooks.Secrets", s.Webhooks.Secrets != nil},
		{"Webhooks.Challenge", !s.Webhooks.Challenge.IsZero()}, {"Webhooks.Tenant", s.Webhooks.Tenant != nil}, {"Webhooks.Inbox", s.Webhooks.Inbox != nil},
		{"Operations.Engine", s.Operations.Engine != nil}, {"Operations.Alarms", s.Operations.Alarms != nil}, {"Operations.Accounts", s.Operations.Accounts != nil},
		{"Operations.Reconcilers", s.Operations.Reconcilers != nil},
		{"Reconcile.Environment", s.Reconcile.Environment != ""}, {"Reconcile.Name", s.Reconcile.Name != ""},
		{"Reconcile.Inbox", s.Reconcile.Inbox != nil}, {"Reconcile.List", s.Reconcile.List != nil}, {"Reconcile.Open", s.Reconcile.Open != nil},
	} {
		if part.given {
			problem(part.field, "must be left empty: it is a matter of Config")
		}
	}
	return errors.Join(problems...)
}
