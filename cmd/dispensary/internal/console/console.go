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
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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

// Handler is the console of one platform. It is safe for concurrent use.
type Handler struct {
	fake      *dispensarytest.Server
	api       *control.Handler
	templates *template.Template
	pages     []page
	outcomes  webpage.Outcomes[outcome]
	mux       http.Handler
}

// page is a page of the console.
type page struct {
	Path  string // relative to the console
	Title string
	view  func(h *Handler, query url.Values) any
	ticks bool // it shows times relative to now

	// operations are the ids of the control API operations behind the page.
	operations []string
}

// frame contains the common data of all pages.
type frame struct {
	Base  string // relative URL of the console, "" means "./"
	Title string
	Here  string // title of the current page in the navigation
	Path  string // of the page with its filter, to which buttons return
	Live  bool   // the script updates the page
	Ticks bool   // also if only the time changes
	Did   *outcome
	Calls []controlCall
	View  any

	// Set by show.
	Pages  []page
	Now    time.Time
	Frozen bool
}

// Clocked returns a time for a row, without the date if it is today.
func (f *frame) Clocked(t time.Time) template.HTML {
	form := "2 Jan 15:04:05"
	if day(t) == day(f.Now) {
		form = time.TimeOnly
	}
	return webpage.ShortTime(t, f.Now, form)
}

// controlCall is an operation with its command.
type controlCall struct {
	control.Operation
	Call string // shell command
}

// show renders a page completely before it sends it, so that an error does not send half a
// page.
func (h *Handler) show(w http.ResponseWriter, status int, name string, f *frame) {
	f.Base, f.Pages, f.Now, f.Frozen = or(f.Base, "./"), h.pages, h.fake.Clock.Now().UTC(), h.fake.Clock.Frozen()
	var page bytes.Buffer
	if err := h.templates.ExecuteTemplate(&page, name, f); err != nil {
		http.Error(w, "console: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only if the browser has disconnected
}

// button is a form that runs an operation and returns to its page.
type button struct {
	Base, ID string // form action
	Return   string // page to return to
	Label    string
	Of       string // object of the action, for screen readers
	Fields   []field
}

type field struct{ Name, Value string }

// newButton returns a button for an operation. fields alternates names and values.
func newButton(f *frame, id, label, of string, fields ...string) button {
	b := button{Base: f.Base, ID: id, Return: f.Path, Label: label, Of: of}
	for i := 0; i+1 < len(fields); i += 2 {
		b.Fields = append(b.Fields, field{fields[i], fields[i+1]})
	}
	return b
}

// next returns the time of the next delivery, or zero if none is due.
func (h *Handler) next() time.Time {
	at, _ := h.fake.Clock.Next()
	return at
}

const (
	pause        = 200 * time.Millisecond // shortest time between two messages
	tick         = time.Second            // time between two messages of a running clock
	writeTimeout = 10 * time.Second       // longest time for a browser to read a message
)

// live sends server-sent events to a page if the platform has changed. The data of a message
// is the platform's time, and the page then reloads its contents. The event name is "change",
// or "tick" if only time has passed.
func (h *Handler) live(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		http.Error(w, "console: the request comes from another site", http.StatusForbidden)
		return
	}
	next, open := h.fake.Changes()
	if !open {
		w.WriteHeader(http.StatusNoContent) // the browser does not reconnect after 204
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for name := "change"; open && h.sendEvent(w, name) == nil; { // first send changes since the page was rendered
		if !sleep(r.Context(), pause) {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-next:
			name = "change"
			next, open = h.fake.Changes()
		case <-h.tick():
			name = "tick"
		}
	}
}

func (h *Handler) sendEvent(w http.ResponseWriter, name string) error {
	stream := http.NewResponseController(w)
	_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout)) // writers without deadlines are not slow
	if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, h.fake.Clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	return stream.Flush()
}

// tick returns a channel that fires after one second, or nil if the clock is frozen.
func (h *Handler) tick() <-chan time.Time {
	if h.fake.Clock.Frozen() {
		return nil
	}
	return time.After(tick)
}

// sleep waits for d. It returns false if ctx is canceled first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// day returns the UTC date of a time.
func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// exact formats a time for the control API.
func exact(t time.Time) string { return t.Format(time.RFC3339Nano) }

// short shortens an id or a token to 8 characters if it is longer than 12.
func short(id string) string {
	if len(id) <= 12 {
		return id
	}
	return id[:8] + "…"
}

func or(value, fallback string) string {
	if strings.TrimSpace(value) == "" {
		return fallback
	}
	return value
}

// nameOf returns the name of a patient. If it is empty, as for a patient from a dynamic link,
// it returns the email address.
func nameOf(p model.Patient) string {
	return webpage.Plain(or(p.FirstName+" "+p.LastName, p.Email))
}
