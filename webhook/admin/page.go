package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

//go:embed *.html
var assets embed.FS

// templates parses the pages once.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"ago": webpage.AgoTime, "stamp": webpage.StampTime, "count": number, "plural": plural, "short": shortReason, "plain": webpage.Plain,
		"took": took,
	}).ParseFS(assets, "*.html"))
})

// took formats a duration in milliseconds or seconds.
func took(d time.Duration) string {
	if d < time.Second {
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}

func number(n int) string { return webpage.Number(n) }

// Handler serves the page (see the package comment). It is safe for concurrent use.
type Handler struct {
	config  Config
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	runs    runs

	started  time.Time // of the figures of this process
	outcomes webpage.Outcomes[outcome]
}

// Format prints the type only.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "admin.Handler") }

// frame is the common data of all pages.
type frame struct {
	Base     string // relative URL from the page to the handler
	Title    string
	Path     string   // path of the page below the handler
	Did      *outcome // of the preceding form
	Live     bool     // the page refreshes by itself
	ReadOnly bool     // without actions
	View     any

	// The method show sets these fields.
	Name       string
	Production bool
	Pages      []place
	Now        time.Time
}

// noPage is the Path of a page without an entry in the navigation.
const noPage = "-"

// place is an entry of the navigation.
type place struct{ Path, Title string }

func (h *Handler) places() []place {
	all := []place{{"", "Overview"}, {"events?state=dead", "Dead letters"}, {"events?state=waiting", "Waiting"}, {"runs", "Reconciler"}}
	if h.config.Accounts != nil {
		all = append(all, place{"accounts", "Accounts"})
	}
	return all
}

// now returns the time in the location of the pages.
func (h *Handler) now() time.Time { return h.config.Now().In(h.config.Location) }

// show renders the whole page before it sends it, so that a template error never leaves half a
// page.
func (h *Handler) show(w http.ResponseWriter, status int, name string, f frame) {
	f.Name, f.Production, f.Pages, f.Now = h.config.Name, h.config.Production, h.places(), h.now()
	if f.Base == "" {
		f.Base = "./"
	}
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, name, f); err != nil {
		http.Error(w, "admin: cannot render the page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only if the browser has disconnected
}

// reject shows an error page. depth is the number of path segments of the request.
func (h *Handler) reject(w http.ResponseWriter, status int, why string, depth int) {
	h.show(w, status, "problem", frame{Base: strings.Repeat("../", max(0, depth-1)), Title: http.StatusText(status), Path: noPage, View: why})
}

// fail shows an error of the engine or of the accounts. These errors contain no data of an
// event.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	h.reject(w, http.StatusInternalServerError, err.Error(), 1)
}
