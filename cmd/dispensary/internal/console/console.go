// Package console is a web console for a fake platform. It shows settings, tokens, data,
// events, webhook deliveries, requests and the clock on server-rendered pages. A small script
// updates an open page. The pages also work without it.
//
//	api := control.New(fake, control.Options{ControlURL: at + "/control"})
//	mux.Handle("/control/", http.StripPrefix("/control", api))
//	mux.Handle("/console/", http.StripPrefix("/console", console.New(fake, api)))
//
// Buttons run operations of the control API. Each page lists its operations as commands, so
// that a script can do the same. The API also has operations without a button.
//
// The console accepts only browsers on the same machine, and no changes from other sites. An
// open page keeps a connection until the browser closes it, its request is canceled or the
// platform is closed.
package console

import (
	"embed"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

//go:embed *.html
var assets embed.FS

// templates returns the parsed pages.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"story": newStory, "presets": func() []preset { return presets }, "preset": newPresetButton, "ago": webpage.AgoTime, "exact": exact, "button": newButton, "pretty": webpage.Pretty, "short": short, "stamp": webpage.StampTime,
	}).ParseFS(assets, "*.html"))
})

// pages returns the pages in the order of the navigation.
func pages() []page {
	return []page{
		{"", "Settings", (*Handler).settings, false, []string{"settings.get", "application.extend_scopes", "platform.reset"}},
		{"tokens", "Tokens", (*Handler).tokens, true, []string{"credentials.list", "tokens.issue", "tokens.expire", "tokens.invalidate", "tokens.revoke"}},
		{"world", "World", (*Handler).world, false, []string{
			"patients.list", "platform.register_patient", "platform.edit_patient",
			"orders.list", "platform.place_order", "platform.refund_order",
			"plans.list", "platform.create_plan", "platform.update_plan", "platform.update_recommendation", "platform.activate_plan", "platform.cancel_plan",
			"products.list", "platform.create_product", "platform.update_product", "platform.describe_product", "platform.update_variant",
			"clinic_keys.list", "platform.revoke_clinic_key", "platform.activate_clinic_key",
		}},
		{"timeline", "Timeline", (*Handler).timeline, false, []string{"journal.list", "events.list", "deliveries.list"}},
		{"events", "Events", (*Handler).events, false, []string{"events.list", "skips.list", "events.wait_delivered"}},
		{"deliveries", "Deliveries", (*Handler).deliveries, true, []string{"deliveries.list", "webhook.get", "webhook.register", "webhook.enable", "clock.advance"}},
		{"requests", "Requests", (*Handler).requests, false, []string{
			"journal.list", "journal.check_no_unexpected", "journal.check_backoff_honored", "journal.check_no_n_plus_one", "journal.check_no_leak", "journal.reset",
		}},
		{"clock", "Clock", (*Handler).clock, true, []string{"clock.get", "clock.advance"}},
		{"faults", "Faults", (*Handler).faults, false, []string{"faults.list", "faults.set", "faults.remove", "faults.clear"}},
		{"behaviors", "Behaviors", (*Handler).behaviors, false, []string{"behaviors.list", "behaviors.set"}},
	}
}

// New returns the console of fake. Mount it with [net/http.StripPrefix]. api must belong to
// the same platform.
func New(fake *dispensarytest.Server, api *control.Handler) *Handler {
	h := &Handler{fake: fake, api: api, templates: templates(), pages: pages()}
	mux := http.NewServeMux()
	for _, r := range h.pages {
		mux.HandleFunc("GET /"+or(r.Path, "{$}"), func(w http.ResponseWriter, q *http.Request) { h.servePage(w, q, r) })
	}
	mux.HandleFunc("POST /actions/{id}", h.runAction)
	mux.HandleFunc("GET /live", h.live)
	webpage.HandleAssets(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		up := strings.Repeat("../", max(0, strings.Count(r.URL.Path, "/")-1))
		h.show(w, http.StatusNotFound, "problem", &frame{Base: up, Title: "Not found", View: "The console has no page at this URL."})
	})
	h.mux = control.Local(mux)
	return h
}

// ServeHTTP implements [net/http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webpage.Protect(w.Header(), "script-src 'self'", "connect-src 'self'")
	h.mux.ServeHTTP(w, r)
}

// servePage shows a page, with the result of the last action on it.
func (h *Handler) servePage(w http.ResponseWriter, q *http.Request, r page) {
	h.show(w, http.StatusOK, or(r.Path, "settings"), &frame{
		Title: r.Title, Here: r.Title, Path: r.Path + filterQuery(q.URL.Query()), Live: true, Ticks: r.ticks && !h.fake.Clock.Frozen(),
		Did: h.outcomes.Find(q.URL.Query().Get("did")), Calls: h.controlCalls(r), View: r.view(h, q.URL.Query()),
	})
}
