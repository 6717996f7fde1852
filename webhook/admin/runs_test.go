package admin_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/admin"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// report returns the report of a run that recovered events and contains text from the
// platform.
func report() reconcile.Report {
	return reconcile.Report{
		Name: "clinic 7", Started: time.Now().Add(-time.Minute), Duration: 3 * time.Second, Missed: 12,
		Recovered: make([]webhook.Key, 11), Unchecked: 2, Retries: 3,
		Gaps: []reconcile.Gap{{Group: events.GroupOrders, EventID: "evt_9", Type: "order.placed"}},
		FailedDeliveries: []reconcile.FailedDelivery{
			{Key: receivertest.NewDelivery().Key, Type: "order.placed", Attempts: 3, Status: 503, Reason: receivertest.Canary},
		},
	}
}

func TestRunsShowReports(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	assert.Contains(t, f.get("runs"), "No run has been reported")
	f.page.RunEnd(t.Context(), reconcile.Report{Skipped: true}, nil)
	assert.Contains(t, f.get("runs"), "No run has been reported", "another replica ran")
	f.page.RunEnd(t.Context(), report(), nil)
	page := f.get("runs")
	for _, want := range []string{"clinic 7", "11 of 12 missed", "Not recovered: 1", "Later runs retry 3 missed events", "order.placed evt_9", "Failed deliveries: 1", "attempt 3: status 503"} {
		assert.Contains(t, page, want)
	}
	assert.Contains(t, f.get(""), "11 of 12 missed events were recovered.")
	for n := range 30 {
		f.page.RunEnd(t.Context(), reconcile.Report{Name: fmt.Sprint("run ", n)}, errors.New("orders: 503"))
	}
	page = f.get("runs")
	assert.Equal(t, 20, strings.Count(page, "<article>"))
	assert.Contains(t, page, "orders: 503")
	assert.Contains(t, page, "run 29")
	assert.Contains(t, f.get(""), "It failed: orders: 503")
}

// Consecutive runs without a missed event are shown as one.
func TestQuietRunsAreMerged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.page.RunEnd(t.Context(), report(), nil)
	for n := range 30 {
		f.page.RunEnd(t.Context(), reconcile.Report{Name: fmt.Sprint("quiet ", n)}, nil)
	}
	page := f.get("runs")
	assert.Equal(t, 2, strings.Count(page, "<article>"))
	assert.Contains(t, page, "quiet 29")
	assert.Contains(t, page, "clinic 7")
}

// clinics is a reconciler with fixed stats.
type clinics reconcile.ClinicsStats

func (c clinics) Stats() reconcile.ClinicsStats { return reconcile.ClinicsStats(c) }

func TestRunsShowFailingClinics(t *testing.T) {
	t.Parallel()
	since := time.Now().Add(-time.Hour)
	stats := clinics{PassBegan: since, NoWebhooks: 2, NoWebhooksSince: since, Retries: 7}
	for n := range 25 {
		stats.Failing = append(stats.Failing, reconcile.FailingClinic{ClinicID: fmt.Sprint("clinic-", n), Since: since, Err: errors.New("orders: 403")},
			reconcile.FailingClinic{ClinicID: "left", Since: since, Err: fmt.Errorf("no user: %w", api.ErrReauthorize)})
	}
	f := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Reconcilers = map[string]func() reconcile.ClinicsStats{"us/sandbox": stats.Stats, "ca/sandbox": clinics{}.Stats}
	})
	page := f.get("runs")
	for _, want := range []string{
		"us/sandbox", "ca/sandbox", "events come only from reconciliation", `Failing clinics</dt><dd class="big failed">25<`,
		`connected user</dt><dd class="big">25<`, `webhooks</dt><dd class="big failed">2<`, `retry</dt><dd class="big">7<`, "orders: 403",
	} {
		assert.Contains(t, page, want)
	}
	assert.Equal(t, 20, strings.Count(page, "orders: 403"))
	page = f.get("")
	assert.Contains(t, page, "Webhooks of us/sandbox do not arrive")
	assert.NotContains(t, page, "ca/sandbox")
}

func TestOverviewShowsOutage(t *testing.T) {
	t.Parallel()
	over := newAlarm(t, 4)
	over.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeAccepted})
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Alarms = map[string]*webhook.Alarm{"": over} })
	assert.Contains(t, f.get(""), "This process has no current failure in receiving webhooks. It has watched them since <time")
	f = newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Alarms = map[string]*webhook.Alarm{"us/sandbox": newAlarm(t, 4), "ca/sandbox": newAlarm(t, 0), "": newAlarm(t, 5)}
	})
	page := f.get("")
	assert.Contains(t, page, "No webhook of us/sandbox has been acknowledged since ")
	assert.Contains(t, page, "4 failures")
	assert.Contains(t, page, "No webhook has been acknowledged since ", "alarm without a name")
	assert.NotContains(t, page, "ca/sandbox")
	assert.Contains(t, page, webhook.ErrInboxTimeout.Error())
	alarm := newAlarm(t, 0)
	for _, tenant := range []string{"maple", "oak", "oak", "oak"} {
		alarm.Observe(t.Context(), webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout, Tenant: tenant})
	}
	page = newFixture(t, func(_ *fixture, c *admin.Config) { c.Alarms = map[string]*webhook.Alarm{"us/sandbox": alarm} }).get("")
	assert.Contains(t, page, "No webhook of us/sandbox oak has been acknowledged since ")
	assert.Contains(t, page, "1 request of us/sandbox maple could not be accepted since ")
	page = newFixture(t, nil).get("")
	assert.NotContains(t, page, "acknowledged", "no alarm is configured")
	assert.NotContains(t, page, "no failures", "no alarm is configured")
}

// The overview must not report success while webhooks are in doubt.
func TestOverviewShowsDoubtfulWebhooks(t *testing.T) {
	t.Parallel()
	mismatch := webhook.Observation{Outcome: webhook.OutcomeRejected, Err: webhook.ErrSignatureMismatch}
	for name, c := range map[string]struct {
		seen []webhook.Observation
		want string
	}{
		"rejections":   {[]webhook.Observation{mismatch, mismatch, mismatch}, "3 requests of us/sandbox were rejected since "},
		"one":          {[]webhook.Observation{mismatch}, "The platform may not be the sender."},
		"two failures": {[]webhook.Observation{unavailable, unavailable}, "2 requests of us/sandbox could not be accepted since "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alarm := newAlarm(t, 0)
			for _, o := range c.seen {
				alarm.Observe(t.Context(), o)
			}
			page := newFixture(t, func(_ *fixture, c *admin.Config) { c.Alarms = map[string]*webhook.Alarm{"us/sandbox": alarm} }).get("")
			assert.Contains(t, page, c.want)
			assert.Contains(t, page, c.seen[0].Err.Error())
			assert.NotContains(t, page, "No failures")
		})
	}
	page := newFixture(t, func(_ *fixture, c *admin.Config) {
		c.Alarms = map[string]*webhook.Alarm{"us/sandbox": newAlarm(t, 0)}
		c.Reconcilers = map[string]func() reconcile.ClinicsStats{"us/sandbox": clinics{NoWebhooks: 1, NoWebhooksSince: time.Now()}.Stats}
	}).get("")
	assert.Contains(t, page, "do not arrive")
	assert.NotContains(t, page, "No failures")
}

// fakeAccounts has one account per status in statuses.
type fakeAccounts struct {
	statuses []accounts.Status
	err      error
	pending  int
	paused   time.Time
}

func (a *fakeAccounts) List(context.Context, accounts.ListOptions) iter.Seq2[accounts.Account, error] {
	return func(yield func(accounts.Account, error) bool) {
		for n, status := range a.statuses {
			account := accounts.Account{Key: tokenstore.Key{Environment: receivertest.Sandbox, User: fmt.Sprint("dr-", n)}, Status: status}
			if status == accounts.StatusMustReauthorize {
				account.Reason = tokenstore.ReasonInvalidGrant
			}
			if !yield(account, nil) {
				return
			}
		}
		if a.err != nil {
			yield(accounts.Account{}, a.err)
		}
	}
}

func (a *fakeAccounts) PendingCommits() int       { return a.pending }
func (a *fakeAccounts) Paused() (time.Time, bool) { return a.paused, !a.paused.IsZero() }

// endless accounts need more time than a request has.
type endless struct{ fakeAccounts }

func (*endless) List(ctx context.Context, _ accounts.ListOptions) iter.Seq2[accounts.Account, error] {
	return func(yield func(accounts.Account, error) bool) {
		yield(accounts.Account{Status: accounts.StatusConnected}, nil)
		<-ctx.Done()
		yield(accounts.Account{}, ctx.Err())
	}
}

// If not all accounts could be read in time, the page makes no claim about the rest.
func TestAccountsShowPartialList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		page, err := admin.New(admin.Config{Engine: many{}, Accounts: &endless{}})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/accounts", nil))
		assert.Contains(t, w.Body.String(), "Only 1 account could be read in time.")
		assert.Contains(t, w.Body.String(), "None of these users must authorize again.")
		assert.NotContains(t, w.Body.String(), "No user must authorize again.")
	})
}

func TestAccountsShowStatuses(t *testing.T) {
	t.Parallel()
	users := &fakeAccounts{}
	f := newFixture(t, func(_ *fixture, c *admin.Config) { c.Accounts = users })
	assert.Contains(t, f.get("accounts"), "No user must authorize again.")
	for range 250 {
		users.statuses = append(users.statuses, accounts.StatusConnected, accounts.StatusMustReauthorize)
	}
	users.statuses = append(users.statuses, accounts.StatusExpiring)
	users.pending, users.paused = 3, time.Now().Add(time.Hour)
	page := f.get("accounts")
	for _, want := range []string{
		`Connected</dt><dd class="big">250<`, `refreshed</dt><dd class="big">1<`, `again</dt><dd class="big failed">250<`,
		"dr-1<", "dr-99<", "3 refreshed tokens", "No token is refreshed in the background",
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "dr-0<", "a connected account")
	assert.NotContains(t, page, "dr-101<", "on the next page")
	assert.NotContains(t, page, "Previous page")
	for n := range 4 {
		page = f.get(f.link(page, "Next page"))
		assert.Contains(t, page, fmt.Sprintf("dr-%d<", 101+100*n))
	}
	assert.NotContains(t, page, "Next page")
	assert.Contains(t, f.get(f.link(page, "Previous page")), "dr-301<")
	assert.Contains(t, f.get(""), "3 refreshed tokens")
	users.err = errors.New("the store is down")
	response, err := http.Get(f.url + "accounts")
	assert.Contains(t, f.read(500, response, err), "the store is down")
}
