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

// defaultReconcileEvery is the default interval of package integration.
const defaultReconcileEvery = time.Hour

// check is one row of the table.
type check struct {
	name string
	run  func(*run, context.Context) Row

	// after are the prerequisites. If one of them fails or is skipped, this check is skipped.
	after []string

	// behind are checks to wait for. Their results do not matter.
	behind []string

	// patient marks a check without a timeout, because it must not be interrupted.
	patient bool
}

// checks are all checks, in the order of the report.
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
	return c.run(r, ctx)
}
