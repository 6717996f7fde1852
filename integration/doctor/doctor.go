package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// defaultReconcileEvery is the default interval of package integration.
const defaultReconcileEvery = time.Hour

// check is one row of the table.
type check struct {
	name string
	run  func(context.Context, *run) Row

	// after are the prerequisites. If one of them fails or is skipped, this check is skipped.
	after []string

	// behind are checks to wait for. Their results do not matter.
	behind []string

	// patient marks a check without a timeout, because it must not be interrupted.
	patient bool
}

// checks are all checks, in the order of the report.
var checks = []check{
	{name: "site address", run: checkSite},
	{name: "TLS", run: checkSiteCertificate, after: []string{"site address"}},
	{name: "clock", run: checkClock, after: []string{"TLS"}},
	{name: "client credentials", run: checkCredentials, after: []string{"TLS"}},
	{name: "redirect address", run: checkRedirect, after: []string{"client credentials"}},
	{name: "token", run: checkStoredToken, after: []string{"store schema"}},
	{name: "token owner", run: checkOwner, after: []string{"token"}},
	{name: "token scopes", run: checkScopes, after: []string{"token"}},
	{name: "token refresh", run: checkRefresh, after: []string{"token", "redirect address", "store lease"}, behind: []string{"store users"}, patient: true},
	{name: "webhook address", run: checkEndpoint},
	{name: "webhook certificate", run: checkEndpointCertificate, after: []string{"webhook address"}},
	{name: "webhook time", run: checkEndpointTime, after: []string{"webhook certificate"}},
	{name: "webhook redirects", run: checkEndpointRedirects, after: []string{"webhook certificate"}},
	{name: "webhook gone", run: checkEndpointGone, after: []string{"webhook redirects"}},
	{name: "webhook signature", run: checkEndpointSignature, after: []string{"webhook gone"}},
	{name: "webhook challenge", run: checkEndpointChallenge, after: []string{"webhook signature"}},
	{name: "webhook forgery", run: checkEndpointForgery, after: []string{"webhook gone"}},
	{name: "webhook replay", run: checkEndpointReplay, after: []string{"webhook signature", "webhook forgery"}},
	{name: "webhook body", run: checkEndpointBody, after: []string{"webhook signature", "webhook forgery"}},
	{name: "webhook activation", run: checkActivation, after: []string{"token refresh"}},
	{name: "delivery log", run: checkDeliveryLog, after: []string{"token refresh"}},
	{name: "delivery failures", run: checkDeliveryFailures, after: []string{"delivery log"}},
	{name: "delivery switch-off", run: checkDeliverySwitchOff, after: []string{"delivery log"}},
	{name: "delivery order", run: checkDeliveryOrder, after: []string{"delivery log"}},
	{name: "inbox", run: checkInbox},
	{name: "inbox schema", run: checkInboxSchema, after: []string{"inbox"}},
	{name: "inbox waiting", run: checkInboxWaiting, after: []string{"inbox schema"}},
	{name: "inbox dead letters", run: checkInboxDead, after: []string{"inbox schema"}},
	{name: "inbox sealed", run: checkInboxSealed, after: []string{"inbox schema"}},
	{name: "reconcile", run: checkReconcile, after: []string{"inbox schema"}},
	{name: "store", run: checkStore},
	{name: "store schema", run: checkStoreSchema, after: []string{"store"}},
	{name: "store sealed", run: checkStoreSealed, after: []string{"store schema"}},
	{name: "store users", run: checkStoreUsers, after: []string{"store schema"}},
	{name: "store lease", run: checkStoreLease, after: []string{"token"}, patient: true},
	{name: "database TLS", run: checkDatabaseTLS},
	{name: "secret files", run: checkSecretFiles},
}

// Run runs all checks, concurrently if possible, and returns one row per check. It fails with an
// [*api.ArgumentError] if config contradicts itself. Any other fault is a row.
func Run(ctx context.Context, config Config) (Report, error) {
	if err := config.check(); err != nil {
		return Report{}, err
	}
	config.ReconcileEvery = cmp.Or(config.ReconcileEvery, defaultReconcileEvery)
	config.LeaseTTL = cmp.Or(config.LeaseTTL, defaults.LeaseTTL)
	if config.Now == nil {
		config.Now = time.Now
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

// all runs each check after its prerequisites.
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
				case row.Status == StatusFail:
					rows[i] = skip("depends on %q, which failed", before)
				case row.Status == StatusSkip:
					rows[i] = row // with the same reason
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
	return c.run(ctx, r)
}

// Config is an integration in one environment. OAuth is required. If another part is left out,
// its rows are skipped.
type Config struct {
	// OAuth is the application. Its Transport calls the platform.
	OAuth oauth.Config

	// ClinicKey is sent with every call. If it is empty, calls send none. The first request with
	// a key activates the integration.
	ClinicKey api.Secret

	// Store is the token store that the program uses, wrapped in [tokenstore.Sealed]. If your
	// own store encrypts tokens, it needs a method Encrypts() bool. If the store could not be
	// opened, Store is nil and StoreErr is the error. [fs.ErrNotExist] and [*api.SchemaError]
	// mean a missing table or column.
	Store    tokenstore.Store
	StoreErr error

	// User is the user whose token is checked. Empty means the first active user of the store.
	User string

	// Operations are the names of the operations that the integration calls, such as
	// "patients.create". The token needs their scopes.
	Operations []string

	// LeaseTTL is the value in the program's [tokens.Config]. 0 means 30 seconds.
	LeaseTTL time.Duration

	// NoRefresh leaves the stored token unchanged. The report then names the flag --production,
	// with which the command refreshes tokens of production.
	NoRefresh bool

	// Webhook is the webhook endpoint.
	Webhook Webhook

	// Inbox stores the events of webhooks. If it is an [engine.Engine], doctor also checks that
	// its events can be decrypted. If the inbox could not be opened, Inbox is nil and InboxErr
	// is the error.
	Inbox    Inbox
	InboxErr error

	// ReconcileEvery is the program's interval between reconcile passes. 0 means 1 hour, as in
	// package integration.
	ReconcileEvery time.Duration

	// SecretFiles are the paths of files with secrets: configuration, keys and SQLite databases.
	SecretFiles []string

	// Databases are the connections to the databases of Store and Inbox.
	Databases []Database

	// AnyOrder states that the program handles events correctly in any order: [webhook.Work] has
	// Order and Stale, or handlers read the current data from the API.
	AnyOrder bool

	// Now returns the current time. Nil means [time.Now].
	Now func() time.Time
}

// Webhook is the webhook endpoint as registered in the developer dashboard.
type Webhook struct {
	// URL is the registered URL. Empty means no endpoint.
	URL string

	// Secrets and Challenge are as in [webhook.HandlerConfig].
	Secrets   []api.Secret
	Challenge api.Secret

	// HTTPClient sends the requests to URL. Nil means a new client. It follows no redirects.
	HTTPClient *http.Client
}

// Inbox is the part of an inbox that doctor needs. Every [engine.Engine] implements it.
type Inbox interface {
	Stats(ctx context.Context) (engine.Stats, error)
}

// check reports invalid combinations of fields.
func (c Config) check() error {
	var problems []error
	problem := func(field, reason string) {
		problems = append(problems, &api.ArgumentError{Field: "doctor.Config." + field, Reason: reason})
	}
	if invalid, ok := errors.AsType[*api.ArgumentError](c.OAuth.Site.Environment.Validate()); ok {
		problem("OAuth.Site.Environment", invalid.Reason)
	}
	for i, name := range c.Operations {
		if operationOf(name) == nil {
			problem(fmt.Sprintf("Operations[%d]", i), "is not an operation: write a name such as patients.create")
		}
	}
	if c.User != "" && c.Store == nil && c.StoreErr == nil {
		problem("User", "is set, but Store is nil")
	}
	if c.Webhook.URL != "" && len(c.Webhook.Secrets) == 0 {
		problem("Webhook.Secrets", "is empty, but signs the test requests")
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

// operationOf returns the operation with a name, or nil.
func operationOf(name string) *operation.Operation {
	all := operation.All()
	if i := slices.IndexFunc(all, func(o *operation.Operation) bool { return o.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Database is the connection to the database of a setting.
type Database struct {
	// Setting is the name of the setting with the URL, such as DISPENSARY_STORE.
	Setting string

	// Private reports whether the network cannot read the connection, because the database is on
	// this machine or connections without TLS fail.
	Private bool
}

// checkTimeout is the longest duration of one check. Patient checks have no such limit: the
// token refresh and the wait for a lease.
const checkTimeout = 15 * time.Second

// run is one run of the checks. One check writes each field below config, and later checks
// read it.
type run struct {
	config Config
	client *oauth.Client // nil if err is not nil
	err    error         // of the application's configuration

	response   *serverResponse // from the site
	record     tokenstore.Record
	access     api.AccessToken // authorizes calls
	endpointAt *serverResponse // response to a correctly signed probe
	forged     *serverResponse // response to a body with a wrong signature
	deliveries []events.Delivery
	stats      engine.Stats
}

func (r *run) environment() api.Environment { return r.config.OAuth.Site.Environment }

// caller returns a client that uses one token and makes at most two attempts per call.
func (r *run) caller(token api.AccessToken) (*dispensary.Client, error) {
	options := []dispensary.Option{
		dispensary.WithTransport(r.config.OAuth.Transport), dispensary.WithTokenSource(oneToken(token)),
		dispensary.WithRetryPolicy(dispensary.RetryPolicy{MaxAttempts: 2}),
	}
	if !r.config.ClinicKey.IsZero() {
		options = append(options, dispensary.WithClinicKey(r.config.ClinicKey))
	}
	return dispensary.New(r.config.OAuth.Site, options...)
}

// oneToken is a token source that always returns one token.
type oneToken api.AccessToken

// Token implements [api.TokenSource].
func (t oneToken) Token(context.Context) (api.AccessToken, error) { return api.AccessToken(t), nil }

// unusedName returns a random name, which no other program uses.
func unusedName() string { return "doctor-" + rand.Text() }

// serverResponse is the response of a server, or the error of the request.
type serverResponse struct {
	err    error
	status int
	header http.Header
	body   []byte
	tls    *tls.ConnectionState
	took   time.Duration
	at     time.Time
}

// do sends a request, without following redirects.
func (r *run) do(client *http.Client, request *http.Request) *serverResponse {
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	start := r.config.Now()
	response, err := direct.Do(request)
	if err != nil {
		return &serverResponse{err: err, at: r.config.Now(), took: r.config.Now().Sub(start)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	_ = response.Body.Close()
	now := r.config.Now()
	return &serverResponse{err: err, status: response.StatusCode, header: response.Header, body: body, tls: response.TLS, took: now.Sub(start), at: now}
}

func (r *run) get(ctx context.Context, address string) *serverResponse {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return &serverResponse{err: errors.New("doctor: invalid URL")} // err repeats the URL
	}
	return r.do(&http.Client{Transport: r.config.OAuth.Transport}, request)
}

// hostOf returns the host of a valid URL.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
