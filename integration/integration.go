package integration

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/ratelimit"
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
	activity admin.Activity            // of Inbox, for Operations

	store, inbox closer          // of their databases
	unwatch      func() error    // nil without Setup.Telemetry
	limits       ratelimit.Store // nil if each process has its own

	running  run
	stopping atomic.Bool
}

// closer closes what was opened; nil closes nothing.
type closer func(context.Context) error

// run is what goes on between Run and Shutdown.
type run struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil before Run
	began  chan struct{}      // closed when events may be handled
	ended  chan struct{}      // closed when Run has returned
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
	observed := i.observedWebhooks(i.setup.Webhooks, slices.Collect(maps.Values(i.alarms))...)
	webhook.NotFoundHandler(cmp.Or(observed.Logger, i.setup.Logger), observed.Observer).ServeHTTP(w, r)
}

// observedBy returns an observer that reports requests to alarms, and then to the program's own.
func observedBy(own webhook.Observer, alarms ...*webhook.Alarm) webhook.Observer {
	observe := own.RequestEnd
	own.RequestEnd = func(ctx context.Context, o webhook.Observation) {
		for _, alarm := range alarms {
			alarm.Observe(ctx, o)
		}
		if observe != nil {
			observe(ctx, o)
		}
	}
	return own
}

// WebhooksOf returns what receives the webhooks of one environment, to be mounted at any
// address. It fails with an [*api.ArgumentError] if no application receives them.
func (i *Integration) WebhooksOf(environment dispensary.Environment) (http.Handler, error) {
	handler, ok := i.webhooks[environment]
	if !ok {
		return nil, &api.ArgumentError{Field: "environment", Reason: "has no application that receives webhooks: " + environment.String()}
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
