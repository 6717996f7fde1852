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
