package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

//go:embed *.html
var assets embed.FS

// templates are the pages; they are parsed once.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"ago": webpage.Ago, "stamp": webpage.Stamp, "count": thousands, "ages": func() []age { return ages },
	}).ParseFS(assets, "*.html"))
})

// Handler is the page: see the package comment. It is safe for concurrent use.
type Handler struct {
	config  Config
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	runs    runs
}

// Format prints the type only.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "admin.Handler") }

// frame is what every page has.
type frame struct {
	Base  string // leads to the handler's address from the page
	Title string
	Path  string // of the page, below the handler's address
	View  any

	// show fills these in.
	Name  string
	Pages []place
	Now   time.Time
}

// noPage is the Path of a page without an entry in the navigation.
const noPage = "-"

// place is one entry of the navigation.
type place struct{ Path, Title string }

func (h *Handler) places() []place {
	all := []place{{"", "Overview"}, {"dead", "Dead letters"}, {"waiting", "Waiting"}, {"runs", "Reconciler"}}
	if h.config.Accounts != nil {
		all = append(all, place{"accounts", "Accounts"})
	}
	return all
}

// show makes a page whole before it sends it: a mistake in it does not look like half
// a page.
func (h *Handler) show(w http.ResponseWriter, status int, name string, f frame) {
	f.Name, f.Pages, f.Now = h.config.Name, h.places(), h.config.Now()
	if f.Base == "" {
		f.Base = "./"
	}
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, name, f); err != nil {
		http.Error(w, "admin: the page could not be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only when the browser went away
}

// refuse shows why there is no page, at an address that is so many levels deep.
func (h *Handler) refuse(w http.ResponseWriter, status int, why string, depth int) {
	h.show(w, status, "problem", frame{Base: strings.Repeat("../", max(0, depth-1)), Title: http.StatusText(status), Path: noPage, View: why})
}

// fail shows the error of the engine or of the accounts, which hold nothing of an event.
func (h *Handler) fail(w http.ResponseWriter, err error) {
	h.refuse(w, http.StatusInternalServerError, err.Error(), 1)
}
