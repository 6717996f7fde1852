package admin

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// overviewView is the first page.
type overviewView struct {
	Stats      engine.Stats
	Activity   *activityView
	Hours      []hourView
	Causes     []causeView
	Counted    int          // dead letters in Causes
	Capped     bool         // there may be more dead letters
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
	Reason  string
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
	var v overviewView
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
	h.show(w, http.StatusOK, "overview", frame{Title: "Overview", View: v})
}

func outagesOf(alarm string, outages []webhook.Outage) (views []outageView) {
	for _, o := range outages {
		views = append(views, outageView{o, strings.TrimSpace(alarm + " " + o.Tenant)})
	}
	return views
}

// countOverview counts events, and dead letters by cause, most frequent first.
func (h *Handler) countOverview(ctx context.Context, v *overviewView) (err error) {
	if v.Stats, err = h.config.Engine.Stats(ctx); err != nil || v.Stats.Dead == 0 {
		return err
	}
	dead, err := h.config.Engine.Count(ctx, engine.Filter{States: states["dead"]}, mostCounted)
	v.Counted, v.Capped = dead.Total, dead.Total == mostCounted
	for reason, cause := range dead.Causes {
		f := engine.Filter{States: states["dead"], Reason: reason}
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
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Reason, b.Reason))
	})
	return err
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
