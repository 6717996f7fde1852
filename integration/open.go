package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Open creates an integration. It opens store and inbox and creates their missing tables. It sends
// no request to the platform. If config or setup is invalid, it opens nothing and reports all
// problems, as [Config.Check] does. The integration accepts events at once, and handles them from
// [Integration.Run] on.
func Open(ctx context.Context, config Config, setup Setup) (_ *Integration, err error) {
	if err := errors.Join(config.Check(), setup.check(config)); err != nil {
		return nil, err
	}
	setup = setup.observed()
	setup.ReconcileEvery = cmp.Or(setup.ReconcileEvery, defaultReconcileEvery)
	setup.OldestWaiting = cmp.Or(setup.OldestWaiting, defaultOldestWaiting)
	setup.Drain = cmp.Or(setup.Drain, defaultDrain)
	i := &Integration{
		config: config, setup: setup, webhooks: map[dispensary.Environment]http.Handler{}, alarms: map[string]*webhook.Alarm{},
		Reconcilers: map[dispensary.Environment]*reconcile.Clinics{},
		running:     run{began: make(chan struct{}), ended: make(chan struct{})},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.Shutdown(context.WithoutCancel(ctx)))
		}
	}()
	var keys *seal.KeyRing
	if !config.SealKeys.IsZero() {
		if keys, err = seal.ParseKeyRing(config.SealKeys); err != nil {
			return nil, err
		}
	}
	store, err := i.openStore(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("integration: store: %w", err)
	}
	if err := i.makeAccounts(store); err != nil {
		return nil, err
	}
	if !config.Inbox.IsZero() {
		if err := i.openInbox(ctx, keys); err != nil {
			return nil, fmt.Errorf("integration: inbox: %w", err)
		}
		if err := i.watchInbox(); err != nil {
			return nil, fmt.Errorf("integration: telemetry: %w", err)
		}
	}
	checks := map[string]health.Check{}
	maps.Copy(checks, setup.Checks)
	for _, application := range config.Applications {
		if err := i.receive(application, checks); err != nil {
			return nil, err
		}
	}
	if err := i.makeHealth(store, checks); err != nil {
		return nil, err
	}
	if i.Inbox == nil {
		return i, nil
	}
	page := setup.Operations
	page.Engine, page.Alarms, page.Accounts, page.Activity = i.Inbox, i.alarms, i.Accounts, &i.activity
	var environments []string
	for _, application := range i.config.Applications {
		environments = append(environments, application.Site.Environment.String())
		page.Production = page.Production || !application.Site.Environment.IsSandbox()
	}
	page.Name = cmp.Or(page.Name, strings.Join(environments, ", "))
	page.Reconcilers = map[string]func() reconcile.ClinicsStats{}
	for environment, clinics := range i.Reconcilers {
		page.Reconcilers[environment.String()] = clinics.Stats
	}
	i.Operations, err = admin.New(page)
	return i, err
}

// makeAccounts creates the accounts and the browser flow.
func (i *Integration) makeAccounts(store tokenstore.Store) error {
	c := i.setup.Accounts
	c.Tokens.Store = store
	shared := i.setup.OAuth
	if shared.Logger == nil {
		shared.Logger = i.setup.Logger
	}
	clinicKeys := map[dispensary.Environment]dispensary.Secret{}
	loopback := true
	for _, application := range i.config.Applications {
		limiter, err := i.limiter(application)
		if err != nil {
			return err
		}
		shared.Limiter = limiter
		c.Applications = append(c.Applications, application.oauth(shared))
		clinicKeys[application.Site.Environment] = application.ClinicKey
		loopback = loopback && strings.HasPrefix(application.RedirectURL, "http:")
	}
	c.Options = func(environment dispensary.Environment) []dispensary.Option {
		options := []dispensary.Option{dispensary.WithLogger(i.setup.Logger)}
		if key := clinicKeys[environment]; !key.IsZero() {
			options = append(options, dispensary.WithClinicKey(key))
		}
		if i.setup.Accounts.Options != nil {
			options = append(options, i.setup.Accounts.Options(environment)...)
		}
		return options
	}
	var err error
	if i.Accounts, err = accounts.New(c); err != nil || i.setup.Connect.User == nil {
		return err
	}
	flow := i.setup.Connect
	flow.StateKeys, flow.LoopbackCookies = i.config.StateKeys, flow.LoopbackCookies || loopback
	i.Connect, err = i.Accounts.Handler(flow)
	return err
}

// receive creates the webhook handler of an application, its alarm and its reconciler.
func (i *Integration) receive(a Application, checks map[string]health.Check) error {
	environment := a.Site.Environment
	conns, err := i.Accounts.Connections(environment)
	if err != nil {
		return err
	}
	checks[checkRefresh+environment.String()] = health.TokenRefresh(conns)
	if !a.receives() {
		return nil
	}
	var clinics *reconcile.Clinics
	if !i.setup.DisableReconcile {
		if clinics, err = i.openClinics(environment); err != nil {
			return err
		}
		i.Reconcilers[environment] = clinics
		checks[checkReconcile+environment.String()] = health.Reconcile(clinics.Stats, i.setup.ReconcileEvery)
	}
	alarm, err := i.newAlarm(environment, clinics)
	if err != nil {
		return err
	}
	i.alarms[environment.String()] = alarm
	checks[checkAlarm+environment.String()] = health.Alarm(alarm)
	c := i.setup.Webhooks
	c.Environment, c.Secrets, c.Challenge, c.Inbox = environment, a.WebhookSecrets, a.WebhookChallenge, i.Inbox
	if c.Logger == nil {
		c.Logger = i.logger()
	}
	c.Logger = c.Logger.With("application", a.Name())
	handler, err := webhook.NewHandler(i.observedWebhooks(c, alarm))
	if err != nil {
		return err
	}
	i.webhooks[environment] = handler
	i.Webhooks = http.HandlerFunc(i.serveWebhook)
	return nil
}

// makeHealth adds the checks of store and inbox, and creates the health handler.
func (i *Integration) makeHealth(store tokenstore.Store, checks map[string]health.Check) (err error) {
	checks[checkStore] = health.Store(store)
	if i.Inbox != nil {
		checks[checkInbox] = health.Inbox(i.Inbox, i.setup.OldestWaiting)
	}
	i.Health, err = health.New(health.Config{Checks: checks, Logger: i.setup.Logger})
	return err
}

// limiter returns the limiter of an application.
func (i *Integration) limiter(a Application) (api.Limiter, error) {
	requests, per, _ := parseRateLimit(a.RateLimit) // Check has validated it
	if i.limits == nil || a.RateLimit == "" {
		return ratelimit.New(requests, per)
	}
	return ratelimit.NewFleet(ratelimit.FleetConfig{
		Store: i.limits, Name: a.Site.Environment.String() + " " + a.ClientID,
		Requests: requests, Per: per, Processes: i.setup.Processes, Logger: i.setup.Logger,
	})
}
