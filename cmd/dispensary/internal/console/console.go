// Package console shows a platform of package dispensarytest to people: its
// settings, tokens, world, events, webhook deliveries, requests and clock, on
// pages that are made on the server. A small script keeps them up to date while
// something happens; without it, everything works as well.
//
//	api := control.New(fake, control.Options{ControlURL: at + "/control"})
//	mux.Handle("/control/", http.StripPrefix("/control", api))
//	mux.Handle("/console/", http.StripPrefix("/console", console.New(fake, api)))
//
// Whatever can be done is an operation of the control API: at the press of a
// button where nothing has to be entered, else with a form. Every page shows the
// calls that do the same, so that what was tried by hand can be put into a script.
//
// The console answers browsers on the same machine alone, and changes nothing at
// another site's request. A page that is open holds a connection; it ends with the
// browser's, with the request's context, or when the platform is closed.
package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
)

//go:embed *.html style.css live.js icon.svg
var files embed.FS

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"rows": rowsOf, "eventTypes": dispensarytest.EventTypes, "standings": func() []string { return standings }, "outcomeWords": func() []string { return []string{"answered", "refused"} },
		"act": actLink, "segments": segments, "ago": ago, "exact": exact, "press": press, "pretty": pretty, "short": short, "stamp": stamp,
	}).ParseFS(files, "*.html"))
})

// Handler is the console of one platform. It is safe for concurrent use.
type Handler struct {
	fake *dispensarytest.Server
	api  *control.Handler
	done outcomes
	mux  http.Handler
}

// room is one page of the console, in the order of its navigation.
type room struct {
	Path  string // below the console's address
	Title string
	view  func(h *Handler, query url.Values) any
	ticks bool // it says how long something takes from now

	// operations of the control API are those that show or do what the page does.
	operations []string
}

func rooms() []room {
	return []room{
		{"", "Settings", (*Handler).settings, false, []string{"settings.get", "application.extend_scopes", "platform.reset"}},
		{"tokens", "Tokens", (*Handler).tokens, true, []string{"credentials.list", "tokens.issue", "tokens.expire", "tokens.invalidate"}},
		{"world", "World", (*Handler).world, false, []string{
			"patients.list", "platform.register_patient", "platform.place_order", "platform.create_plan",
			"platform.activate_plan", "platform.cancel_plan", "platform.refund_order",
			"platform.revoke_clinic_key", "platform.reactivate_clinic_key",
		}},
		{"events", "Events", (*Handler).events, false, []string{"events.list", "skips.list", "events.wait_delivered"}},
		{"deliveries", "Deliveries", (*Handler).deliveries, true, []string{"deliveries.list", "webhook.register", "webhook.enable", "clock.advance"}},
		{"requests", "Requests", (*Handler).requests, false, []string{"journal.list", "journal.check_no_unexpected", "journal.reset"}},
		{"clock", "Clock", (*Handler).clock, true, []string{"clock.get", "clock.advance"}},
		{"faults", "Faults", (*Handler).faults, false, []string{"faults.list", "faults.set", "faults.remove", "faults.clear"}},
		{"silences", "Open points", (*Handler).silences, false, []string{"silences.list", "silences.set"}},
		{"actions", "Actions", (*Handler).actions, false, nil},
	}
}

// New returns the console of a platform, for the address below which it is
// mounted with [net/http.StripPrefix]. The control API has to be the same
// platform's.
func New(fake *dispensarytest.Server, api *control.Handler) *Handler {
	h := &Handler{fake: fake, api: api}
	mux := http.NewServeMux()
	for _, r := range rooms() {
		mux.HandleFunc("GET /"+or(r.Path, "{$}"), func(w http.ResponseWriter, q *http.Request) { h.enter(w, q, r) })
	}
	mux.HandleFunc("GET /actions/{id}", h.form)
	mux.HandleFunc("POST /actions/{id}", h.run)
	mux.HandleFunc("GET /live", h.live)
	for name, kind := range map[string]string{"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) { file(w, name, kind) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		up := strings.Repeat("../", max(0, strings.Count(r.URL.Path, "/")-1))
		h.show(w, http.StatusNotFound, "problem", &frame{Base: up, Title: "Not found", View: "The console has no such page."})
	})
	h.mux = control.Local(mux)
	return h
}

// policy lets pages load what the console itself serves, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements [net/http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", policy)
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
	h.mux.ServeHTTP(w, r)
}

// frame is what every page has.
type frame struct {
	Base    string // leads to the console's address from the page; "" is "./"
	Title   string
	Here    string // the page's place in the navigation
	Path    string // of the room, with what it is sifted by, for buttons to come back to
	Live    bool   // the page is kept up to date
	Ticks   bool   // even while nothing changes but the time
	Did     *actionView
	Program []program
	View    any

	// show fills these in.
	Rooms  []room
	Now    time.Time
	Frozen bool
}

// enter shows a room, and what was done there last.
func (h *Handler) enter(w http.ResponseWriter, q *http.Request, r room) {
	h.show(w, http.StatusOK, or(r.Path, "settings"), &frame{
		Title: r.Title, Here: r.Title, Path: r.Path + sifted(q.URL.Query()), Live: true, Ticks: r.ticks && !h.fake.Clock().Frozen(),
		Did: h.done.find(q.URL.Query().Get("did")), Program: h.programs(r), View: r.view(h, q.URL.Query()),
	})
}

// show makes a page whole before it sends it: a mistake in it does not look like
// half a page.
func (h *Handler) show(w http.ResponseWriter, status int, name string, f *frame) {
	f.Base, f.Rooms, f.Now, f.Frozen = or(f.Base, "./"), rooms(), h.fake.Clock().Now(), h.fake.Clock().Frozen()
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, name, f); err != nil {
		http.Error(w, "console: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only when the browser went away
}

// file sends one of the embedded files.
func file(w http.ResponseWriter, name, kind string) {
	content, _ := files.ReadFile(name) // it is embedded
	w.Header().Set("Content-Type", kind+"; charset=utf-8")
	_, _ = w.Write(content) // fails only when the browser went away
}

func or(value, fallback string) string {
	if strings.TrimSpace(value) == "" {
		return fallback
	}
	return value
}
