package admin

import (
	"net/http"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// overviewView is the first page.
type overviewView struct {
	Stats   engine.Stats
	Dead    []breakdown
	Counted int                       // dead letters in Dead
	Capped  bool                      // there may be more
	Watched bool                      // there is an alarm
	Outages map[string]webhook.Outage // by the names of their alarms
	Doubts  map[string]webhook.Outage // those that do not count yet
	Silent  bool                      // a reconciler finds no webhooks
	Run     *run                      // the latest of a reconciler

	Environments map[string]clinicsView // of the reconcilers

	Pending     int // commits of tokens
	Paused      bool
	PausedUntil time.Time
}

func (h *Handler) overview(w http.ResponseWriter, r *http.Request) {
	var v overviewView
	var err error
	if v.Stats, err = h.config.Engine.Stats(r.Context()); err != nil {
		h.fail(w, err)
		return
	}
	dead, err := h.config.Engine.Count(r.Context(), engine.Filter{States: deadOnly}, mostCounted)
	if err != nil {
		h.fail(w, err)
		return
	}
	if dead.Total > 0 {
		v.Dead, v.Counted, v.Capped = breakdowns(dead, "dead", url.Values{}), dead.Total, dead.Total == mostCounted
	}
	v.Watched, v.Outages, v.Doubts = len(h.config.Alarms) > 0, map[string]webhook.Outage{}, map[string]webhook.Outage{}
	for name, alarm := range h.config.Alarms {
		switch outage, counts := alarm.Outage(); {
		case counts:
			v.Outages[name] = outage
		case outage.Failures > 0:
			v.Doubts[name] = outage
		}
	}
	v.Environments = h.environments()
	for _, clinics := range v.Environments {
		v.Silent = v.Silent || clinics.Silent > 0
	}
	if last := h.runs.latest(); len(last) > 0 {
		v.Run = &last[0]
	}
	if h.config.Accounts != nil {
		v.Pending = h.config.Accounts.PendingCommits()
		v.PausedUntil, v.Paused = h.config.Accounts.Paused()
	}
	h.show(w, http.StatusOK, "overview", frame{Title: "Overview", View: v})
}
