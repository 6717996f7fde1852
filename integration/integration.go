package integration

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Integration is everything that [Open] has made. Its parts can be used as they are; it
// ends them, with [Integration.Shutdown]. It is safe for concurrent use.
type Integration struct {
	// Accounts are the platform accounts of the users: the client of each, their
	// status, disconnecting them.
	Accounts *accounts.Accounts

	// Connect is the browser flow, to be mounted where the redirect addresses point to;
	// nil without Setup.Connect.User.
	Connect http.Handler

	// Webhooks receives the webhooks of all applications, told apart by the last
	// element of the path, their [Application.Name]; nil if none receives any. For
	// addresses of another form see [Integration.WebhooksOf].
	Webhooks http.Handler

	// Inbox holds the events of webhooks: its dead letters, its numbers. Nil without
	// Config.Inbox.
	Inbox engine.Engine

	// DB is the file of Config.Inbox, where that is sqlite, for tables of the program's own:
	// see [sqlinbox.InTransaction]. Its transactions should be short, as accepts wait for
	// them: see [sqlinbox.DSN]. Nil with another inbox. Shutdown closes it.
	DB *sql.DB

	// Operations is the page for operators, of the events, the accounts, and what the
	// reconcilers did; nil without Config.Inbox. Mount does not mount it: that is for the
	// program, behind its own login. See package admin.
	Operations *admin.Handler

	// Reconcilers find missed webhooks, one for each environment that receives webhooks. They
	// reconcile every clinic that a user of the environment is known to belong to, as any of
	// its connected users. Empty if Setup.DisableReconcile is true.
	Reconcilers map[dispensary.Environment]*reconcile.Clinics

	// Health serves /healthz and /readyz: see package health. Run runs its checks, so
	// /readyz fails before.
	Health *health.Handler

	setup    Setup
	config   Config
	webhooks map[dispensary.Environment]http.Handler
	alarms   map[string]*webhook.Alarm // by their environments
	events   reconcile.Inbox           // Inbox, for reconcilers

	store, inbox closer          // of their databases
	limits       ratelimit.Store // nil if each process has its own

	running  run
	stopping atomic.Bool
}

// closer closes what was opened; nil closes nothing.
type closer func(context.Context) error

// Open makes an integration. It opens store and inbox and makes their tables; it asks
// the platform nothing. If config or setup is wrong, it opens nothing and reports
// everything that is, as [Config.Check] does. Events are accepted at once, and handled
// from [Integration.Run] on.
func Open(ctx context.Context, config Config, setup Setup) (_ *Integration, err error) {
	if err := errors.Join(config.Check(), setup.check(config)); err != nil {
		return nil, err
	}
	setup.ReconcileEvery = cmp.Or(setup.ReconcileEvery, DefaultReconcileEvery)
	setup.OldestWaiting = cmp.Or(setup.OldestWaiting, DefaultOldestWaiting)
	setup.Drain = cmp.Or(setup.Drain, DefaultDrain)
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
	}
	checks := health.Checks{}
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
	page.Engine, page.Alarms, page.Accounts = i.Inbox, i.alarms, i.Accounts
	page.Reconcilers = map[string]admin.Reconciler{}
	for environment, clinics := range i.Reconcilers {
		page.Reconcilers[environment.String()] = clinics
	}
	i.Operations, err = admin.New(page)
	return i, err
}

// makeAccounts makes the accounts and the browser flow.
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

// receive makes what receives the webhooks of an application, and finds those that
// were missed.
func (i *Integration) receive(a Application, checks health.Checks) error {
	environment := a.Site.Environment
	conns, err := i.Accounts.Connections(environment)
	if err != nil {
		return err
	}
	checks["breaker "+environment.String()] = health.Breaker(conns)
	if !a.receives() {
		return nil
	}
	var clinics *reconcile.Clinics
	if !i.setup.DisableReconcile {
		if clinics, err = i.openClinics(environment); err != nil {
			return err
		}
		i.Reconcilers[environment] = clinics
		checks["reconcile "+environment.String()] = health.Reconcile(clinics.Stats, i.setup.ReconcileEvery)
	}
	alarm, err := i.newAlarm(environment, clinics)
	if err != nil {
		return err
	}
	i.alarms[environment.String()] = alarm
	checks["alarm "+environment.String()] = health.Alarm(alarm)
	c := i.setup.Webhooks
	c.Environment, c.Secrets, c.Challenge, c.Inbox = environment, a.WebhookSecrets, a.WebhookChallenge, i.Inbox
	if i.setup.WrapInbox != nil {
		c.Inbox = i.setup.WrapInbox(c.Inbox)
	}
	if c.Logger == nil {
		c.Logger = i.logger()
	}
	c.Logger = c.Logger.With("application", a.Name())
	observe := c.Observer.RequestEnd
	c.Observer.RequestEnd = func(ctx context.Context, o webhook.Observation) {
		alarm.Observe(ctx, o)
		if observe != nil {
			observe(ctx, o)
		}
	}
	handler, err := webhook.NewHandler(c)
	if err != nil {
		return err
	}
	i.webhooks[environment] = handler
	i.Webhooks = http.HandlerFunc(i.serveWebhook)
	return nil
}

// makeHealth adds the checks of the parts that all applications share.
func (i *Integration) makeHealth(store tokenstore.Store, checks health.Checks) (err error) {
	checks["store"] = health.Store(store)
	if i.Inbox != nil {
		checks["inbox"] = health.Inbox(i.Inbox, i.setup.OldestWaiting)
	}
	i.Health, err = health.New(health.Config{Checks: checks, Logger: i.setup.Logger})
	return err
}

func (i *Integration) logger() *slog.Logger {
	if i.setup.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return i.setup.Logger
}

// serveWebhook hands a request to the application that its path names. It reports a request
// with an unknown path to the alarms of all applications, because it may be for any of them.
func (i *Integration) serveWebhook(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	for _, application := range i.config.Applications {
		if handler := i.webhooks[application.Site.Environment]; handler != nil && application.Name() == name {
			handler.ServeHTTP(w, r)
			return
		}
	}
	observer := i.setup.Webhooks.Observer
	observe := observer.RequestEnd
	observer.RequestEnd = func(ctx context.Context, o webhook.Observation) {
		for _, alarm := range i.alarms {
			alarm.Observe(ctx, o)
		}
		if observe != nil {
			observe(ctx, o)
		}
	}
	logger := cmp.Or(i.setup.Webhooks.Logger, i.setup.Logger)
	webhook.NotFoundHandler(logger, observer).ServeHTTP(w, r)
}

// WebhooksOf returns what receives the webhooks of one environment, to be mounted at any
// address. It fails with [dispensary.ErrUnknownSite] where no application receives them.
func (i *Integration) WebhooksOf(environment dispensary.Environment) (http.Handler, error) {
	handler, ok := i.webhooks[environment]
	if !ok {
		return nil, fmt.Errorf("%w: no application of %s receives webhooks", dispensary.ErrUnknownSite, environment)
	}
	return handler, nil
}

// Mount mounts everything: the browser flow at the paths of the redirect addresses and,
// beside each, its page to start from, connect or what Setup.Connect.StartName is; the
// webhooks at /webhooks/ and the names of their applications, as in
// /webhooks/us-sandbox; and /healthz and /readyz.
func (i *Integration) Mount(mux *http.ServeMux) {
	mux.Handle("/healthz", i.Health)
	mux.Handle("/readyz", i.Health)
	if i.Webhooks != nil {
		mux.Handle("/webhooks/", i.Webhooks)
	}
	if i.Connect == nil {
		return
	}
	start := cmp.Or(i.setup.Connect.StartName, "connect")
	mounted := map[string]bool{}
	for _, application := range i.config.Applications {
		redirect, err := url.Parse(application.RedirectURL)
		if err != nil {
			continue // it has been checked
		}
		for _, at := range []string{redirect.Path, path.Join(path.Dir(redirect.Path), start)} {
			if !mounted[at] {
				mux.Handle(at, i.Connect)
			}
			mounted[at] = true
		}
	}
}

// Format prints the environments: the integration holds secrets.
func (i *Integration) Format(f fmt.State, _ rune) {
	var names []string
	for _, application := range i.config.Applications {
		names = append(names, application.Site.Environment.String())
	}
	_, _ = io.WriteString(f, "integration.Integration{"+strings.Join(names, " ")+"}")
}
