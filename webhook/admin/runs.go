package admin

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

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
