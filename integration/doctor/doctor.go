package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

const (
	// checkTimeout is how long one check may take. Refreshing a token, and waiting for the end
	// of a lease, take as long as they take.
	checkTimeout = 15 * time.Second

	// oldestWaiting is for how long an event may wait in the inbox.
	oldestWaiting = 15 * time.Minute

	// defaultReconcileEvery is the interval at which package integration reconciles.
	defaultReconcileEvery = time.Hour
)

// ErrSchema is the StoreErr or InboxErr of a [Config] whose database lacks a table or a column.
var ErrSchema = errors.New("doctor: a table or a column is missing")

// Config is an integration in one environment. OAuth is required; the rows of what is
// left out are skipped.
type Config struct {
	// OAuth is the application. Its HTTPClient calls the platform.
	OAuth oauth.Config

	// ClinicKey is sent with calls; empty sends none. The first request with a key
	// activates the integration.
	ClinicKey api.Secret

	// Store keeps the tokens, as the program uses it: with [tokens.Sealed] around it.
	// StoreErr is why there is none: what opening it has returned.
	Store    tokens.Store
	StoreErr error

	// User is the user whose token is checked. If it is empty, the first active user of the
	// store is.
	User string

	// Operations are the names of the operations that the integration calls, as in
	// "patients.create": the token needs their scopes.
	Operations []string

	// LeaseTTL is that of the program's [tokens.Config]; 0 means [tokens.DefaultLeaseTTL].
	LeaseTTL time.Duration

	// NoRefresh leaves the stored token as it is.
	NoRefresh bool

	// Webhook is the endpoint for webhooks.
	Webhook Webhook

	// Inbox holds the events of webhooks: usually an [engine.Engine], whose events are
	// opened, too, to see whether they can be. InboxErr is why there is none.
	Inbox    Inbox
	InboxErr error

	// ReconcileEvery is the interval at which the program reconciles. 0 means an
	// hour, as in package integration.
	ReconcileEvery time.Duration

	// SecretFiles are the paths of files with secrets: configuration, keys, SQLite databases.
	SecretFiles []string

	// Databases are the connections to the databases of Store and Inbox.
	Databases []Database

	// AnyOrder says that events may be handled in any order: [webhook.Work] has Order
	// and Stale, or handlers read what they need from the API.
	AnyOrder bool

	// Now is the clock; nil means [time.Now].
	Now func() time.Time
}

// Webhook is the endpoint for webhooks, as the developer dashboard has it.
type Webhook struct {
	// URL is the address that is registered, as the platform reaches it; empty is none.
	URL string

	// Secrets and Challenge are those of [webhook.HandlerConfig].
	Secrets   []api.Secret
	Challenge api.Secret

	// HTTPClient reaches URL; nil means a client of its own. Redirects are not followed.
	HTTPClient *http.Client
}

// Inbox is what is asked of an inbox. Every [engine.Engine] is one.
type Inbox interface {
	Stats(ctx context.Context) (engine.Stats, error)
}

// check is one row of the table.
type check struct {
	name string
	run  func(*run, context.Context) Row

	// after are the checks that have to end before; one that fails, or is skipped,
	// skips this one.
	after []string

	// behind are checks that have to end before, however they come out.
	behind []string

	// patient checks end by themselves, and must not be broken off.
	patient bool
}

// checks are all there are, in the order of the report.
var checks = []check{
	{name: "site address", run: (*run).site},
	{name: "TLS", run: (*run).siteCertificate, after: []string{"site address"}},
	{name: "clock", run: (*run).clock, after: []string{"TLS"}},
	{name: "client credentials", run: (*run).credentials, after: []string{"TLS"}},
	{name: "redirect address", run: (*run).redirect, after: []string{"client credentials"}},
	{name: "token", run: (*run).storedToken, after: []string{"store schema"}},
	{name: "token owner", run: (*run).owner, after: []string{"token"}},
	{name: "token scopes", run: (*run).scopes, after: []string{"token"}},
	{name: "token refresh", run: (*run).refresh, after: []string{"token", "redirect address", "store lease"}, behind: []string{"store users"}, patient: true},
	{name: "webhook address", run: (*run).endpoint},
	{name: "webhook certificate", run: (*run).endpointCertificate, after: []string{"webhook address"}},
	{name: "webhook time", run: (*run).endpointTime, after: []string{"webhook certificate"}},
	{name: "webhook redirects", run: (*run).endpointRedirects, after: []string{"webhook certificate"}},
	{name: "webhook gone", run: (*run).endpointGone, after: []string{"webhook redirects"}},
	{name: "webhook signature", run: (*run).endpointSignature, after: []string{"webhook gone"}},
	{name: "webhook challenge", run: (*run).endpointChallenge, after: []string{"webhook signature"}},
	{name: "webhook forgery", run: (*run).endpointForgery, after: []string{"webhook gone"}},
	{name: "webhook replay", run: (*run).endpointReplay, after: []string{"webhook signature", "webhook forgery"}},
	{name: "webhook body", run: (*run).endpointBody, after: []string{"webhook signature", "webhook forgery"}},
	{name: "webhook activation", run: (*run).activation, after: []string{"token refresh"}},
	{name: "delivery log", run: (*run).deliveryLog, after: []string{"token refresh"}},
	{name: "delivery failures", run: (*run).deliveryFailures, after: []string{"delivery log"}},
	{name: "delivery switch-off", run: (*run).deliverySwitchOff, after: []string{"delivery log"}},
	{name: "delivery order", run: (*run).deliveryOrder, after: []string{"delivery log"}},
	{name: "inbox", run: (*run).inbox},
	{name: "inbox schema", run: (*run).inboxSchema, after: []string{"inbox"}},
	{name: "inbox waiting", run: (*run).inboxWaiting, after: []string{"inbox schema"}},
	{name: "inbox dead letters", run: (*run).inboxDead, after: []string{"inbox schema"}},
	{name: "inbox sealed", run: (*run).inboxSealed, after: []string{"inbox schema"}},
	{name: "reconcile", run: (*run).reconcile, after: []string{"inbox schema"}},
	{name: "store", run: (*run).store},
	{name: "store schema", run: (*run).storeSchema, after: []string{"store"}},
	{name: "store sealed", run: (*run).storeSealed, after: []string{"store schema"}},
	{name: "store users", run: (*run).storeUsers, after: []string{"store schema"}},
	{name: "store lease", run: (*run).storeLease, after: []string{"token"}, patient: true},
	{name: "database TLS", run: (*run).databaseTLS},
	{name: "secret files", run: (*run).secretFiles},
}

// run is one run. Each field below config is written by one check and read by those
// after it.
type run struct {
	config Config
	client *oauth.Client // nil if the application cannot be used
	err    error         // why

	answer     *answer // of the site
	record     tokens.Record
	access     api.AccessToken // to call with
	endpointAt *answer         // the answer to a signed probe
	forged     *answer         // the answer to a body that was signed wrongly
	deliveries []events.Delivery
	stats      engine.Stats
}

// Run looks at everything, at the same time where it can, and returns one row for each
// check. Its error is an [*api.ArgumentError] for a configuration that says what cannot
// be; what is merely wrong is a row.
func Run(ctx context.Context, config Config) (Report, error) {
	if err := config.check(); err != nil {
		return Report{}, err
	}
	config.ReconcileEvery = cmp.Or(config.ReconcileEvery, defaultReconcileEvery)
	config.LeaseTTL = cmp.Or(config.LeaseTTL, tokens.DefaultLeaseTTL)
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.OAuth.HTTPClient == nil {
		config.OAuth.HTTPClient = &http.Client{}
	}
	if config.Webhook.HTTPClient == nil {
		config.Webhook.HTTPClient = &http.Client{}
	}
	r := &run{config: config}
	r.client, r.err = oauth.New(config.OAuth)
	return Report{
		Environment: config.OAuth.Site.Environment.String(), At: config.Now().UTC().Truncate(time.Second), Rows: r.all(ctx),
	}, nil
}

// check reports what no integration can be.
func (c Config) check() error {
	var problems []error
	problem := func(field, reason string) {
		problems = append(problems, &api.ArgumentError{Field: "doctor.Config." + field, Reason: reason})
	}
	if err := c.OAuth.Site.Environment.Validate(); err != nil {
		problem("OAuth.Site.Environment", "is none")
	}
	for i, name := range c.Operations {
		if operationOf(name) == nil {
			problem(fmt.Sprintf("Operations[%d]", i), "is no operation: names are as in patients.create")
		}
	}
	if c.User != "" && c.Store == nil && c.StoreErr == nil {
		problem("User", "is set, and Store is nil")
	}
	if c.Webhook.URL != "" && len(c.Webhook.Secrets) == 0 {
		problem("Webhook.Secrets", "is empty: without a secret nothing can be signed")
	}
	if c.Webhook.URL != "" && c.Webhook.Challenge.IsZero() {
		problem("Webhook.Challenge", "is empty")
	}
	for field, d := range map[string]time.Duration{"ReconcileEvery": c.ReconcileEvery, "LeaseTTL": c.LeaseTTL} {
		if d < 0 {
			problem(field, "is negative")
		}
	}
	return errors.Join(problems...)
}

// operationOf returns an operation by name, nil if there is none.
func operationOf(name string) *operation.Operation {
	all := operation.All()
	if i := slices.IndexFunc(all, func(o *operation.Operation) bool { return o.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// all runs the checks, each once those that it needs have ended.
func (r *run) all(ctx context.Context) []Row {
	rows := make([]Row, len(checks))
	done := map[string]chan struct{}{}
	at := map[string]int{}
	for i, c := range checks {
		done[c.name], at[c.name] = make(chan struct{}), i
	}
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			defer close(done[c.name])
			for _, before := range c.behind {
				<-done[before]
			}
			for _, before := range c.after {
				<-done[before]
				switch row := rows[at[before]]; {
				case rows[i].Status != "":
				case row.Status == Fail:
					rows[i] = skip("it needs what %q looks at, which failed", before)
				case row.Status == Skip:
					rows[i] = row // for the same reason
				}
			}
			if rows[i].Status == "" {
				rows[i] = r.one(ctx, c)
			}
			rows[i].Check = c.name
		})
	}
	all.Wait()
	return rows
}

func (r *run) one(ctx context.Context, c check) Row {
	if !c.patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, checkTimeout)
		defer cancel()
	}
	return c.run(r, ctx)
}

func (r *run) environment() api.Environment { return r.config.OAuth.Site.Environment }

// caller is a client that calls with one token, once.
func (r *run) caller(token api.AccessToken) (*dispensary.Client, error) {
	options := []dispensary.Option{
		dispensary.WithHTTPClient(r.config.OAuth.HTTPClient), dispensary.WithTokenSource(oneToken(token)),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2}),
	}
	if !r.config.ClinicKey.IsZero() {
		options = append(options, dispensary.WithClinicKey(r.config.ClinicKey))
	}
	return dispensary.New(r.config.OAuth.Site, options...)
}

// oneToken is a source of one token.
type oneToken api.AccessToken

// Token implements [api.TokenSource].
func (t oneToken) Token(context.Context) (api.AccessToken, error) { return api.AccessToken(t), nil }

// madeUp is a text that no one else uses.
func madeUp() string { return "doctor-" + rand.Text() }
