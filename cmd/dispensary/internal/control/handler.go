package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// maxBody is the largest request body, in bytes.
const maxBody = 1 << 20

// Handler is the control API of one platform. It is safe for concurrent use.
type Handler struct {
	fake    *dispensarytest.Server
	options Options
	mux     *http.ServeMux
}

// New returns the control API of fake. Mount it with [net/http.StripPrefix], because its paths
// begin at its own root.
func New(fake *dispensarytest.Server, options Options) *Handler {
	h := &Handler{fake: fake, options: options, mux: http.NewServeMux()}
	for _, op := range Operations() {
		h.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, op) })
	}
	h.mux.HandleFunc("GET /openapi.yaml", serveContract)
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &problem{status: http.StatusNotFound, message: "there is no " + r.Method + " " + r.URL.Path + " (see openapi.yaml)"})
	})
	return h
}

// Settings returns the settings of the handler's platform.
func (h *Handler) Settings() Settings { return settingsOf(h.fake, h.options) }

// ServeHTTP implements [net/http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if err := guard(r); err != nil {
		refuse(w, err)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// Call runs an operation without HTTP, for a console in the same process. path is relative to
// the API and may have a query. body is JSON, and nil or empty for none. Call returns the
// status and the JSON body of the response.
func (h *Handler) Call(ctx context.Context, method, path string, body io.Reader) (status int, answer []byte) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return http.StatusBadRequest, errorBody(err.Error())
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Type", jsonMedia)
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	h.mux.ServeHTTP(w, r)
	return w.status, w.body
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, op Operation) {
	if op.Method != http.MethodGet {
		if err := guardWrite(r); err != nil {
			refuse(w, err)
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, &problem{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is larger than %d MiB or incomplete", maxBody>>20)})
		return
	}
	value, err := h.run(r, op, body)
	if err != nil {
		refuse(w, err)
		return
	}
	answer, err := encode(value)
	if err != nil {
		refuse(w, err)
		return
	}
	send(w, http.StatusOK, jsonMedia, answer)
}

// run checks the query and calls the platform. The platform panics on mistakes in a Go test,
// so run returns a panic as an error.
func (h *Handler) run(r *http.Request, op Operation, body []byte) (value any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = invalid("%s", strings.TrimPrefix(fmt.Sprint(cause), "dispensarytest: "))
		}
	}()
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("invalid query")
	}
	for name := range query {
		if !op.knows(name) {
			return nil, invalid("%s has no query parameter %q", op.ID, name)
		}
	}
	return op.run(&call{ctx: r.Context(), fake: h.fake, options: h.options, path: r.PathValue, query: query}, body)
}

func (o Operation) knows(name string) bool {
	for _, q := range o.Query {
		if q.Name == name {
			return true
		}
	}
	return false
}

// recorder stores a response inside this process.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

// Header implements [net/http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [net/http.ResponseWriter].
func (r *recorder) WriteHeader(status int) { r.status = status }

// Write implements [net/http.ResponseWriter].
func (r *recorder) Write(p []byte) (int, error) {
	r.body = append(r.body, p...)
	return len(p), nil
}
