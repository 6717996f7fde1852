package admin

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// overviewView is the first page.
type overviewView struct {
	Stats      engine.Stats
	Activity   *activityView
	Hours      []hourView
	Causes     []causeView
	Hour       int          // dead letters of the last hour
	Before     int          // dead letters of the hour before
	Started    time.Time    // of the figures of this process
	Watched    bool         // alarms are configured
	Outages    []outageView // by name of the alarm
	Doubts     []outageView // failures without an alarm yet
	NoWebhooks bool         // a reconciler reports missing webhooks
	Run        *run         // latest run of a reconciler

	Environments map[string]clinicsView // by name of the reconciler

	Pending     int // tokens not stored yet
	Paused      bool
	PausedUntil time.Time
}

// causeView is the dead letters with one reason.
type causeView struct {
	engine.Cause
	Reason  string // short form
	Types   string
	Clinics int
	Link    template.URL
	Replay  template.URL
}

// outageView is an outage with the name of its alarm and tenant.
type outageView struct {
	webhook.Outage
	Name string
}

// hourView is the activity of an hour.
type hourView struct {
	Start                 time.Time
	Handled, Failed, Dead int
	Link                  template.URL // dead letters of the hour
}

func (h *Handler) overview(w http.ResponseWriter, r *http.Request) {
	v := overviewView{Started: h.started}
	if err := h.countOverview(r.Context(), &v); err != nil {
		h.fail(w, err)
		return
	}
	if h.config.Activity != nil {
		v.Activity = h.config.Activity.view(h.now())
		v.Hours = hoursOf(v.Activity)
	}
	v.Watched = len(h.config.Alarms) > 0
	for _, name := range slices.Sorted(maps.Keys(h.config.Alarms)) {
		current, doubtful := h.config.Alarms[name].Outages()
		v.Outages, v.Doubts = append(v.Outages, outagesOf(name, current)...), append(v.Doubts, outagesOf(name, doubtful)...)
	}
	v.Environments = h.environments()
	for _, clinics := range v.Environments {
		v.NoWebhooks = v.NoWebhooks || clinics.NoWebhooks > 0
	}
	if last := h.runs.latest(); len(last) > 0 {
		v.Run = &last[0]
	}
	if h.config.Accounts != nil {
		v.Pending = h.config.Accounts.PendingCommits()
		v.PausedUntil, v.Paused = h.config.Accounts.Paused()
	}
	h.show(w, http.StatusOK, "overview", frame{Title: "Overview", Live: true, ReadOnly: h.config.ReadOnly(r), View: v})
}

func outagesOf(alarm string, outages []webhook.Outage) (views []outageView) {
	for _, o := range outages {
		views = append(views, outageView{o, strings.TrimSpace(alarm + " " + o.Tenant)})
	}
	return views
}

// countOverview counts events, and dead letters by cause, newest cause first.
func (h *Handler) countOverview(ctx context.Context, v *overviewView) (err error) {
	if v.Stats, err = h.config.Engine.Stats(ctx); err != nil || v.Stats.Dead == 0 {
		return err
	}
	hour := h.now().Add(-time.Hour)
	counts := make([]engine.Counts, 3)
	for n, f := range []engine.Filter{{}, {GivenUpFrom: hour}, {GivenUpFrom: hour.Add(-time.Hour), GivenUpBefore: hour}} {
		f.States = states["dead"]
		if counts[n], err = h.config.Engine.Count(ctx, f, 0); err != nil {
			return err
		}
	}
	v.Hour, v.Before = counts[1].Total, counts[2].Total
	for reason, cause := range counts[0].Causes {
		f := engine.Filter{States: states["dead"], Reason: reason, NoReason: reason == ""}
		types := make([]string, 0, len(cause.Types))
		for _, name := range slices.Sorted(maps.Keys(cause.Types)) {
			types = append(types, string(name))
		}
		v.Causes = append(v.Causes, causeView{
			Cause: cause, Reason: cmp.Or(shortReason(reason), "no reason"), Types: strings.Join(types, ", "), Clinics: len(cause.Clinics),
			Link: address("events", queryOf(f)), Replay: bulkAddress(ActionReplay, f, ""),
		})
	}
	slices.SortFunc(v.Causes, func(a, b causeView) int {
		return cmp.Or(b.First.Compare(a.First), cmp.Compare(a.Reason, b.Reason))
	})
	return nil
}

// hoursOf returns the hours with attempts, latest first.
func hoursOf(v *activityView) (all []hourView) {
	for hour := 23; hour >= 0; hour-- {
		one := hourView{Start: v.Chart.Hour(hour), Dead: v.Sum(0, hour), Failed: v.Sum(1, hour), Handled: v.Sum(2, hour)}
		if one.Dead+one.Failed+one.Handled > 0 {
			one.Link = address("events", queryOf(engine.Filter{States: states["dead"], GivenUpFrom: one.Start, GivenUpBefore: one.Start.Add(time.Hour)}))
			all = append(all, one)
		}
	}
	return all
}

// runs stores the last runs of reconcilers in this process.
type runs struct {
	mu  sync.Mutex
	all []run // latest first
}

// run is a run of a reconciler, with the first entries of its lists.
type run struct {
	reconcile.Report
	Err   error
	Quiet bool // no missed event and no error

	Recovered, FailedDeliveries, Gaps int
}

const (
	mostRuns   = 20
	mostOfARun = 20 // gaps and failed deliveries
)

// RunEnd records a run. Use it as RunEnd of a [reconcile.Observer]. The page shows the last 20
// runs of this process. It ignores skipped runs. Of several consecutive runs without a missed
// event, it shows the last one.
func (h *Handler) RunEnd(_ context.Context, report reconcile.Report, err error) {
	if report.Skipped {
		return
	}
	ended := run{report, err, isQuiet(report, err), len(report.Recovered), len(report.FailedDeliveries), len(report.Gaps)}
	ended.Report.Recovered = nil
	ended.Report.Gaps = slices.Clone(report.Gaps[:min(mostOfARun, len(report.Gaps))])
	ended.Report.FailedDeliveries = slices.Clone(report.FailedDeliveries[:min(mostOfARun, len(report.FailedDeliveries))])
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	if ended.Quiet && len(h.runs.all) > 0 && h.runs.all[0].Quiet {
		h.runs.all[0] = ended
		return
	}
	h.runs.all = slices.Insert(h.runs.all, 0, ended)
	h.runs.all = h.runs.all[:min(mostRuns, len(h.runs.all))]
}

func (r *runs) latest() []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// isQuiet reports whether a run found no missed event and had no error.
func isQuiet(r reconcile.Report, err error) bool {
	return err == nil && r.Missed == 0 && r.Retries == 0 && len(r.Gaps)+len(r.FailedDeliveries) == 0 && r.DeliveryLogErr == nil
}

// runsView is the page of runs.
type runsView struct {
	Environments map[string]clinicsView
	Runs         []run
}

// clinicsView is the state of the clinics of an environment.
type clinicsView struct {
	reconcile.ClinicsStats
	Failed       []reconcile.FailingClinic // first clinics with a connected user
	Failures     int                       // number of these clinics
	Disconnected int                       // clinics without a connected user
}

// mostClinics is the number of failing clinics listed on the page.
const mostClinics = 20

func viewClinics(stats reconcile.ClinicsStats) clinicsView {
	v := clinicsView{ClinicsStats: stats}
	for _, one := range stats.Failing {
		switch {
		case one.Disconnected():
			v.Disconnected++
			continue
		case v.Failures < mostClinics:
			v.Failed = append(v.Failed, one)
		}
		v.Failures++
	}
	return v
}

// environments returns the state of all reconcilers.
func (h *Handler) environments() map[string]clinicsView {
	all := map[string]clinicsView{}
	for name, stats := range h.config.Reconcilers {
		all[name] = viewClinics(stats())
	}
	return all
}

func (h *Handler) showRuns(w http.ResponseWriter, _ *http.Request) {
	view := runsView{Environments: h.environments(), Runs: h.runs.latest()}
	h.show(w, http.StatusOK, "runs", frame{Title: "Reconciler", Path: "runs", View: view})
}

// accountsView is the page of accounts.
type accountsView struct {
	Looked      int                // accounts read
	Partial     bool               // not all accounts were read
	By          map[string]int     // by status
	Reauthorize []accounts.Account // one page of accounts
	Previous    template.URL       // empty on the first page
	Next        template.URL       // empty on the last page
	Pending     int
	Paused      bool
	PausedUntil time.Time
}

// accountsTime is the longest time to read accounts.
const accountsTime = 5 * time.Second

// accounts shows the users who must authorize again. It reads all accounts in the available
// time, because the store does not mark a token that has just lost a scope.
func (h *Handler) accounts(w http.ResponseWriter, r *http.Request) {
	v := accountsView{By: map[string]int{}, Pending: h.config.Accounts.PendingCommits()}
	v.PausedUntil, v.Paused = h.config.Accounts.Paused()
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	first := perPage * max(0, page-1)
	ctx, cancel := context.WithTimeout(r.Context(), accountsTime)
	defer cancel()
	for account, err := range h.config.Accounts.List(ctx, accounts.ListOptions{}) {
		v.Partial = err != nil && ctx.Err() != nil
		if v.Partial {
			break
		}
		if err != nil {
			h.fail(w, err)
			return
		}
		v.Looked++
		v.By[string(account.Status)]++
		if at := v.By[string(accounts.StatusMustReauthorize)] - 1; account.Status == accounts.StatusMustReauthorize && at >= first && at < first+perPage {
			v.Reauthorize = append(v.Reauthorize, account)
		}
	}
	if first > 0 {
		v.Previous = template.URL("accounts?page=" + strconv.Itoa(page-1))
	}
	if v.By[string(accounts.StatusMustReauthorize)] > first+perPage {
		v.Next = template.URL("accounts?page=" + strconv.Itoa(max(1, page)+1))
	}
	h.show(w, http.StatusOK, "accounts", frame{Title: "Accounts", Path: "accounts", View: v})
}
