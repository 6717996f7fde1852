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

// Integration contains all parts that [Open] creates. Use the parts directly, but end them only
// with [Integration.Shutdown]. It is safe for concurrent use.
type Integration struct {
	// Accounts are the platform accounts of your users. It returns clients and statuses, and
	// disconnects users.
	Accounts *accounts.Accounts

	// Connect serves the browser flow. Mount it at the paths of the redirect URLs. It is nil
	// without Setup.Connect.User.
	Connect http.Handler

	// Webhooks receives the webhooks of all applications. The last element of the path is their
	// [Application.Name]. It is nil if no application receives webhooks. For URLs of another
	// form, see [Integration.WebhooksOf].
	Webhooks http.Handler

	// Inbox stores the events of webhooks, with its dead letters and statistics. It is nil
	// without Config.Inbox.
	Inbox engine.Engine

	// DB is the file of an inbox in SQLite, for your own tables: see sqlinbox.InTransaction.
	// Keep its transactions short, because accepts wait for them: see sqlinbox.DSN. It is nil
	// with any other inbox. Shutdown closes it.
	DB *sql.DB

	// Operations serves the pages for operators, with events, accounts and reconcile runs. It is
	// nil without Config.Inbox. Mount does not mount it: mount it yourself behind your own login.
	// See package admin.
	Operations *admin.Handler

	// Reconcilers find missed webhooks, one for each environment that receives webhooks. They
	// reconcile every clinic with a known user, as any of its connected users. The map is empty
	// if Setup.DisableReconcile is true.
	Reconcilers map[dispensary.Environment]*reconcile.Clinics

	// Health serves /healthz and /readyz: see package health. Run runs its checks, so /readyz
	// fails before Run.
	Health *health.Handler

	setup    Setup
	config   Config
	webhooks map[dispensary.Environment]http.Handler
	alarms   map[string]*webhook.Alarm // by environment
	events   reconcile.Inbox           // Inbox, for reconcilers
	activity admin.Activity            // of Inbox, for Operations

	store, inbox closer          // close the databases
	unwatch      func() error    // nil without Setup.Telemetry
	limits       ratelimit.Store // nil if each process has its own

	running  run
	stopping atomic.Bool
}

// closer closes a database. Nil means that there is none.
type closer func(context.Context) error

// run is the state of Run.
type run struct {
	mu     sync.Mutex
	cancel context.CancelFunc // nil before Run
	began  chan struct{}      // closed by Run: events may be handled
	ended  chan struct{}      // closed when Run has returned
}

func (i *Integration) logger() *slog.Logger {
	if i.setup.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return i.setup.Logger
}

// serveWebhook passes a request to the application in its path. It reports a request with an
// unknown path to the alarms of all applications, because it may be for any of them.
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

// observedBy returns an observer that reports requests to alarms, and then to own.
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

// WebhooksOf returns the handler for the webhooks of one environment. Mount it at any path. It
// fails with an [*api.ArgumentError] if no application of the environment receives webhooks.
func (i *Integration) WebhooksOf(environment dispensary.Environment) (http.Handler, error) {
	handler, ok := i.webhooks[environment]
	if !ok {
		return nil, &api.ArgumentError{Field: "environment", Reason: "has no application with webhooks: " + environment.String()}
	}
	return handler, nil
}

// Mount mounts all parts except Operations:
//   - the browser flow at the path of each redirect URL, and its start page beside it, under the
//     name connect or Setup.Connect.StartName
//   - the webhooks at /webhooks/ and the name of the application, such as /webhooks/us-sandbox
//   - the health checks at /healthz and /readyz
//
// A router of another package can serve the mux: in chi, router.Mount("/", mux).
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
			continue // Check has reported it
		}
		for _, at := range []string{redirect.Path, path.Join(path.Dir(redirect.Path), start)} {
			if !mounted[at] {
				mux.Handle(at, i.Connect)
			}
			mounted[at] = true
		}
	}
}

// Format prints only the environments, because the integration contains secrets.
func (i *Integration) Format(f fmt.State, _ rune) {
	var names []string
	for _, application := range i.config.Applications {
		names = append(names, application.Site.Environment.String())
	}
	_, _ = io.WriteString(f, "integration.Integration{"+strings.Join(names, " ")+"}")
}
