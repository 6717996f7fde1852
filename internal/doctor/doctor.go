package doctor

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
)

// defaultReconcileEvery is the interval at which package integration reconciles.
const defaultReconcileEvery = time.Hour

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

// Run looks at everything, at the same time where it can, and returns one row for each
// check. Its error is an [*api.ArgumentError] for a configuration that says what cannot
// be; what is merely wrong is a row.
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
				case row.Status == StatusFail:
					rows[i] = skip("it needs what %q looks at, which failed", before)
				case row.Status == StatusSkip:
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
