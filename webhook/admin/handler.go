package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
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

// New returns a page. Mount it with [http.StripPrefix], at an address that ends with a
// slash. An error is an [*api.ArgumentError].
func New(c Config) (*Handler, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{config: c, mux: http.NewServeMux(), origins: http.NewCrossOriginProtection()}
	for _, origin := range c.TrustedOrigins {
		if err := h.origins.AddTrustedOrigin(origin); err != nil {
			return nil, &api.ArgumentError{Field: "admin.Config.TrustedOrigins", Reason: fmt.Sprintf("contains %q, which is no origin such as https://ops.example", origin), Err: err}
		}
	}
	h.mux.HandleFunc("GET /{$}", h.overview)
	h.mux.HandleFunc("GET /dead", h.list)
	h.mux.HandleFunc("GET /waiting", h.list)
	h.mux.HandleFunc("GET /event", h.event)
	h.mux.HandleFunc("POST /event", h.openBody)
	h.mux.HandleFunc("GET /bulk", h.dryRun)
	h.mux.HandleFunc("POST /bulk", h.change)
	h.mux.HandleFunc("GET /runs", h.showRuns)
	if c.Accounts != nil {
		h.mux.HandleFunc("GET /accounts", h.accounts)
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		h.refuse(w, http.StatusNotFound, "There is no such page.", strings.Count(r.URL.Path, "/"))
	})
	webpage.HandleAssets(h.mux)
	return h, nil
}

// Format prints the type only.
func (h *Handler) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "admin.Handler") }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webpage.Protect(w.Header())
	if len(h.config.Hosts) > 0 && !slices.ContainsFunc(h.config.Hosts, func(host string) bool { return strings.EqualFold(host, r.Host) }) {
		h.refuse(w, http.StatusMisdirectedRequest, "These pages have another host, or the program does not name it in Hosts.", 1)
		return
	}
	if err := h.origins.Check(r); err != nil {
		h.refuse(w, http.StatusForbidden, otherSite, 1)
		return
	}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind != "application/x-www-form-urlencoded" || r.ParseForm() != nil {
			h.refuse(w, http.StatusUnsupportedMediaType, "This is not a form of these pages. Nothing was done.", 1)
			return
		}
	}
	h.mux.ServeHTTP(w, r)
}

// otherSite is the reason to reject a form whose origin is not the Host of the request.
const otherSite = "This request came from a page of another site. Nothing was done. " +
	"If it came from this page, a proxy changes the Host header: let the proxy pass on the Host of the request, " +
	"or let the program add the origin of this page to TrustedOrigins."

// maxForm is how many bytes a form may have.
const maxForm = 1 << 20

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
