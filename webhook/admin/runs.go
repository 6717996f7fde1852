package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// runs are the last runs of reconcilers in this process.
type runs struct {
	mu  sync.Mutex
	all []run // the latest first
}

// run is a run of a reconciler. Of what it lists the first are kept.
type run struct {
	reconcile.Report
	Err error

	Recovered, FailedDeliveries, Gaps int
}

const (
	mostRuns   = 20
	mostOfARun = 20 // gaps and failed deliveries
)

// RunEnd is called with a run of a reconciler: it is the RunEnd of a
// [reconcile.Observer]. The page shows the last 20 that were not skipped, of this
// process.
func (h *Handler) RunEnd(_ context.Context, report reconcile.Report, err error) {
	if report.Skipped {
		return
	}
	ended := run{report, err, len(report.Recovered), len(report.FailedDeliveries), len(report.Gaps)}
	ended.Report.Recovered = nil
	ended.Report.Gaps = slices.Clone(report.Gaps[:min(mostOfARun, len(report.Gaps))])
	ended.Report.FailedDeliveries = slices.Clone(report.FailedDeliveries[:min(mostOfARun, len(report.FailedDeliveries))])
	h.runs.mu.Lock()
	defer h.runs.mu.Unlock()
	h.runs.all = slices.Insert(h.runs.all, 0, ended)
	h.runs.all = h.runs.all[:min(mostRuns, len(h.runs.all))]
}

func (r *runs) latest() []run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func (h *Handler) showRuns(w http.ResponseWriter, _ *http.Request) {
	h.show(w, http.StatusOK, "runs", frame{Title: "Reconciler", Path: "runs", View: h.runs.latest()})
}

// accountsView is how users stand with the platform.
type accountsView struct {
	Looked      int                // at how many
	Partial     bool               // there are more
	Unlisted    bool               // the store cannot list them
	By          map[string]int     // by status
	Reauthorize []accounts.Account // those who must, the first of them
	More        int
	Pending     int
	Paused      bool
	PausedUntil time.Time
}

const (
	// mostAccounts is how many accounts are shown.
	mostAccounts = 200

	// accountsTime is how long accounts are looked at.
	accountsTime = 5 * time.Second
)

// accounts shows who must authorize again. A token that has just lost a scope is not
// marked in the store, so that all are looked at, as far as time allows.
func (h *Handler) accounts(w http.ResponseWriter, r *http.Request) {
	v := accountsView{By: map[string]int{}, Pending: h.config.Accounts.PendingCommits()}
	v.PausedUntil, v.Paused = h.config.Accounts.Paused()
	ctx, cancel := context.WithTimeout(r.Context(), accountsTime)
	defer cancel()
	for account, err := range h.config.Accounts.List(ctx, accounts.ListOptions{}) {
		v.Unlisted = errors.Is(err, errors.ErrUnsupported)
		v.Partial = err != nil && ctx.Err() != nil
		if v.Unlisted || v.Partial {
			break
		}
		if err != nil {
			h.fail(w, err)
			return
		}
		v.Looked++
		v.By[string(account.Status)]++
		switch {
		case account.Status != accounts.MustReauthorize:
		case len(v.Reauthorize) < mostAccounts:
			v.Reauthorize = append(v.Reauthorize, account)
		default:
			v.More++
		}
	}
	h.show(w, http.StatusOK, "accounts", frame{Title: "Accounts", Path: "accounts", View: v})
}
