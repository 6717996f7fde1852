package admin

import (
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// New creates a page. Mount it with [http.StripPrefix] under a path that ends with a slash. An
// error is an [*api.ArgumentError].
func New(c Config) (*Handler, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{config: c, started: c.Now(), mux: http.NewServeMux(), origins: http.NewCrossOriginProtection()}
	for _, origin := range c.TrustedOrigins {
		if err := h.origins.AddTrustedOrigin(origin); err != nil {
			return nil, &api.ArgumentError{Field: "admin.Config.TrustedOrigins", Reason: fmt.Sprintf("contains %q: use an origin such as https://ops.example", origin), Err: err}
		}
	}
	h.mux.HandleFunc("GET /{$}", h.overview)
	h.mux.HandleFunc("GET /events", h.list)
	h.mux.HandleFunc("GET /find", h.find)
	h.mux.HandleFunc("GET /event", h.event)
	h.mux.HandleFunc("POST /event", h.openBody)
	h.mux.HandleFunc("GET /bulk", h.writers(h.dryRun))
	h.mux.HandleFunc("POST /bulk", h.writers(h.change))
	h.mux.HandleFunc("GET /runs", h.showRuns)
	if c.Accounts != nil {
		h.mux.HandleFunc("GET /accounts", h.accounts)
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		depth := strings.Count(r.URL.Path, "/")
		other := *r
		for _, other.Method = range []string{http.MethodGet, http.MethodPost} {
			if _, pattern := h.mux.Handler(&other); pattern != "/" {
				w.Header().Set("Allow", other.Method)
				h.reject(w, http.StatusMethodNotAllowed, "This page does not have the method of the request. Nothing was done.", depth)
				return
			}
		}
		h.reject(w, http.StatusNotFound, "Page not found.", depth)
	})
	webpage.HandleAssets(h.mux)
	return h, nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	webpage.Protect(w.Header(), "script-src 'self'", "connect-src 'self'")
	if len(h.config.Hosts) > 0 && !slices.ContainsFunc(h.config.Hosts, func(host string) bool { return strings.EqualFold(host, r.Host) }) {
		h.reject(w, http.StatusMisdirectedRequest, "This host is not allowed. Open the page under its own host, or add this one to Hosts in the program.", 1)
		return
	}
	if err := h.origins.Check(r); err != nil {
		h.reject(w, http.StatusForbidden, otherSite, 1)
		return
	}
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if kind != "application/x-www-form-urlencoded" || r.ParseForm() != nil {
			h.reject(w, http.StatusUnsupportedMediaType, "This is not a form of this page. Nothing was done.", 1)
			return
		}
	}
	if r.URL.Path == "" { // under a prefix without the slash: the links of the page are relative
		asked, _, _ := strings.Cut(r.RequestURI, "?")
		w.Header().Set("Location", path.Base(asked)+"/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// writers rejects users who may only read.
func (h *Handler) writers(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.config.ReadOnly(r) {
			h.reject(w, http.StatusForbidden, "You may only read. Nothing was done.", 1)
			return
		}
		next(w, r)
	}
}

// otherSite is the message if the origin of a form is not the Host of the request.
const otherSite = "This request came from another site. Nothing was done. " +
	"If you sent it from this page, a proxy changes the Host header: configure the proxy to forward the original Host, " +
	"or add the origin of this page to TrustedOrigins in the program."

// maxForm is the largest size of a form in bytes.
const maxForm = 1 << 20
