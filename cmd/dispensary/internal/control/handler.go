package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

// Bounds of a request's body: of fields, and of a snapshot.
const (
	maxBody   = 1 << 20
	maxUpload = 1 << 30
)

// Handler is the control API of one platform. It is safe for concurrent use.
type Handler struct {
	fake    *dispensarytest.Server
	options Options
	mux     *http.ServeMux
}

// New returns the control API of a platform. Its paths stand below the address
// it is mounted at; see [net/http.StripPrefix].
func New(fake *dispensarytest.Server, options Options) *Handler {
	h := &Handler{fake: fake, options: options, mux: http.NewServeMux()}
	for _, op := range Operations() {
		h.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, op) })
	}
	h.mux.HandleFunc("GET /openapi.yaml", serveContract)
	h.mux.HandleFunc(anyPath, func(w http.ResponseWriter, r *http.Request) { refuse(w, noSuchPath(r)) })
	return h
}

// policy allows the style of the timeline, the only page here, and no page to frame it.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// anyPath is the pattern of what no operation is at.
const anyPath = "/"

func noSuchPath(r *http.Request) error {
	return &problem{status: http.StatusNotFound, message: "there is no " + r.Method + " " + r.URL.Path + "; see openapi.yaml"}
}

// Settings returns the settings of the handler's platform.
func (h *Handler) Settings() Settings { return settingsOf(h.fake, h.options) }

// ServeHTTP implements [net/http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", policy)
	err := guard(r)
	var wrong *problem
	if errors.As(err, &wrong) && wrong.status == http.StatusUnsupportedMediaType {
		// Of no use to say where there is nothing that takes it.
		if _, pattern := h.mux.Handler(r); pattern == anyPath {
			err = noSuchPath(r)
		}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// Call runs an operation without HTTP, as a console in the same process does. The
// path is below the API's address and may have a query; body is JSON or empty, and nil is
// empty. It returns the status and the JSON body of the answer.
func (h *Handler) Call(ctx context.Context, method, path string, body io.Reader) (status int, answer []byte) {
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, body)
	if err != nil {
		return http.StatusBadRequest, errorBody(err.Error())
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	h.mux.ServeHTTP(w, r)
	return w.status, w.body
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, op Operation) {
	limit := int64(maxBody)
	if op.Upload {
		limit = maxUpload
	}
	value, err := h.run(r, op, http.MaxBytesReader(w, r.Body, limit))
	if broken := new(brokenBody); errors.As(err, &broken) {
		err = &problem{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is larger than %d MiB, or broke off", limit>>20)}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	if whole, is := value.(media); is {
		send(w, http.StatusOK, op.Media, whole)
		return
	}
	if whole, is := value.(encoded); is {
		send(w, http.StatusOK, jsonMedia, whole)
		return
	}
	answer, err := encode(value)
	if err != nil {
		refuse(w, err)
		return
	}
	if op.key != "" {
		answer = fmt.Appendf(nil, "{%q:%s}", op.key, answer)
	}
	send(w, http.StatusOK, jsonMedia, answer)
}

// run checks the query and calls the platform, which panics where a test of Go
// made a mistake.
func (h *Handler) run(r *http.Request, op Operation, body io.Reader) (value any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = invalid("%s", strings.TrimPrefix(fmt.Sprint(cause), "dispensarytest: "))
		}
	}()
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query is malformed")
	}
	for name := range query {
		if !op.knows(name) {
			return nil, invalid("%s has no query parameter %q", op.ID, name)
		}
	}
	return op.run(&call{ctx: r.Context(), fake: h.fake, options: h.options, path: r.PathValue, query: query}, bodyReader{body})
}

// brokenBody is the error of a body that cannot be read.
type brokenBody struct{ error }

// bodyReader marks the errors of a body.
type bodyReader struct{ io.Reader }

// Read implements [io.Reader].
func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &brokenBody{err}
	}
	return n, err
}

func (o Operation) knows(name string) bool {
	for _, q := range o.Query {
		if q.Name == name {
			return true
		}
	}
	return false
}

// recorder takes an answer that goes no further than this process.
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
