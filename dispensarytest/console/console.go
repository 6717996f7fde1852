// Package console shows a platform of package dispensarytest to people: its
// settings, tokens, world, events, webhook deliveries, requests and clock, on
// pages that are made on the server and need no script.
//
//	api := control.New(fake, control.Options{ControlURL: at + "/control"})
//	mux.Handle("/control/", http.StripPrefix("/control", api))
//	mux.Handle("/console/", http.StripPrefix("/console", console.New(fake, api)))
//
// Whatever can be done is an operation of the control API. Its page shows the
// call and the line of Go that do the same, so that what was tried by hand can be
// put into a test.
//
// The console answers browsers on the same machine alone, and changes nothing at
// another site's request.
package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/control"
)

//go:embed *.html style.css
var files embed.FS

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"act": actLink, "ago": ago, "pretty": pretty, "short": short, "stamp": stamp,
	}).ParseFS(files, "*.html"))
})

// Handler is the console of one platform. It is safe for concurrent use.
type Handler struct {
	fake *dispensarytest.Server
	api  *control.Handler
	mux  http.Handler
}

// room is one page of the console, in the order of its navigation.
type room struct {
	Path  string // below the console's address
	Title string
	view  func(h *Handler) any
}

func rooms() []room {
	return []room{
		{"", "Settings", (*Handler).settings},
		{"tokens", "Tokens", (*Handler).tokens},
		{"world", "World", (*Handler).world},
		{"events", "Events", (*Handler).events},
		{"deliveries", "Deliveries", (*Handler).deliveries},
		{"requests", "Requests", (*Handler).requests},
		{"clock", "Clock", (*Handler).clock},
		{"faults", "Faults", (*Handler).faults},
		{"silences", "Silences", (*Handler).silences},
		{"actions", "Actions", (*Handler).actions},
	}
}

// New returns the console of a platform, for the address below which it is
// mounted with [net/http.StripPrefix]. The control API has to be the same
// platform's.
func New(fake *dispensarytest.Server, api *control.Handler) *Handler {
	h := &Handler{fake: fake, api: api}
	mux := http.NewServeMux()
	for _, r := range rooms() {
		mux.HandleFunc("GET /"+or(r.Path, "{$}"), func(w http.ResponseWriter, _ *http.Request) {
			h.show(w, http.StatusOK, or(r.Path, "settings"), r.Title, r.view(h))
		})
	}
	mux.HandleFunc("GET /actions/{id}", h.form)
	mux.HandleFunc("POST /actions/{id}", h.run)
	mux.HandleFunc("GET /style.css", style)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.show(w, http.StatusNotFound, "problem", "Not found", "The console has no such page.")
	})
	h.mux = control.Local(mux)
	return h
}

// ServeHTTP implements [net/http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("X-Content-Type-Options", "nosniff")
	h.mux.ServeHTTP(w, r)
}

// frame is what every page has.
type frame struct {
	Rooms []room
	Base  string // leads to the console's address from the page
	Here  string
	Title string
	Now   time.Time
	View  any
}

// show makes a page whole before it sends it: a mistake in it does not look like
// half a page.
func (h *Handler) show(w http.ResponseWriter, status int, name, title string, view any) {
	f := frame{Rooms: rooms(), Base: "./", Here: title, Title: title, Now: h.fake.Clock().Now(), View: view}
	if name == "action" {
		f.Base, f.Here = "../", "Actions"
	}
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, name, f); err != nil {
		http.Error(w, "console: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only when the browser went away
}

func style(w http.ResponseWriter, _ *http.Request) {
	sheet, _ := files.ReadFile("style.css") // it is embedded
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(sheet) // fails only when the browser went away
}

func or(value, fallback string) string {
	if strings.TrimSpace(value) == "" {
		return fallback
	}
	return value
}
