// Package control is the HTTP control API of a fake platform. It lets a console, a CI script
// or tests in another language set up the platform, act as its users and check its requests.
//
//	api := control.New(fake, control.Options{})
//	http.Handle("/control/", http.StripPrefix("/control", api))
//
// The handler serves its contract, an OpenAPI 3.1 document, at openapi.yaml. Go tests call
// [dispensarytest.Server], which offers more.
//
//	GET  /settings                  returns URLs, credentials and accounts
//	POST /patients/<id>/orders      places an order as a patient
//	POST /clock/advance             advances the clock and sends due deliveries
//	PUT  /webhook                   registers the webhook endpoint
//	POST /faults                    makes requests or deliveries fail
//	POST /reset                     restores the initial state
//
// # Values
//
// Field names are the names of the Go fields in snake case. A time is RFC 3339, or null if the
// Go value is zero. An amount of money is a decimal string. A request with an unknown field is
// rejected, and the error lists the known fields.
//
// # Access
//
// The API accepts only callers on the same machine that use a loopback name. Web pages cannot
// reach it with a cross-origin request, a form or a name that resolves to this machine. A
// request that changes state needs the content type application/json.
package control

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/httpserve"
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
		reject(w, &problem{status: http.StatusNotFound, message: "there is no " + r.Method + " " + r.URL.Path + " (see openapi.yaml)"})
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
		reject(w, err)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// Call runs an operation without HTTP, for a console in the same process. path is relative to
// the API and may have a query. body is JSON, and nil or empty for none. Call returns the
// status and the JSON body of the response.
func (h *Handler) Call(ctx context.Context, method, path string, body io.Reader) (status int, response []byte) {
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
			reject(w, err)
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		reject(w, &problem{status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is larger than %d MiB or incomplete", maxBody>>20)})
		return
	}
	value, err := h.run(r, op, body)
	if err != nil {
		reject(w, err)
		return
	}
	response, err := encode(value)
	if err != nil {
		reject(w, err)
		return
	}
	send(w, http.StatusOK, jsonMedia, response)
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

// Local passes callers on this machine to next. It rejects requests of web pages on other
// sites that change state. It protects the console.
func Local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := local(r); err != nil {
			reject(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local rejects callers on other machines. Web pages send their requests from this machine, so
// it also rejects other host names and cross-origin writes.
func local(r *http.Request) error {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err != nil || !httpserve.Loopback(host) {
		return forbidden("only callers on the same machine have access")
	}
	// DNS rebinding: the page's own host name resolves to this machine.
	if !httpserve.Loopback(hostOf(r.Host)) {
		return forbidden("use a loopback host name, such as localhost")
	}
	// A cross-origin request that changes state.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return forbidden("the request comes from another site")
	}
	return nil
}

// guard protects the API itself, which web pages cannot even read.
func guard(r *http.Request) error {
	if err := local(r); err != nil {
		return err
	}
	// The page could not read the response, but computing it has a cost.
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return forbidden("the request comes from another site")
	}
	return nil
}

// guardWrite rejects forms and other requests that a web page can send without a CORS
// preflight.
func guardWrite(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != jsonMedia {
		return &problem{status: http.StatusUnsupportedMediaType, message: "requests that change state need the content type application/json"}
	}
	return nil
}

func forbidden(message string) error {
	return &problem{status: http.StatusForbidden, message: message}
}

// hostOf returns the name in a Host header, with or without a port.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Options configures a [Handler]. The zero value is valid.
type Options struct {
	// ControlURL and ConsoleURL are the URLs of this API and the console. They only appear in
	// [Settings]. Both may be empty.
	ControlURL string
	ConsoleURL string
}

// Settings contains the URLs, credentials and accounts of a fake platform. All secrets are
// generated and protect no real data.
type Settings struct {
	BaseURL        string         `json:"base_url"`        // of the API, with its /api prefix
	AuthURL        string         `json:"auth_url"`        // of the authorization pages
	ConsoleURL     string         `json:"console_url"`     // for browsers, empty without a console
	ControlURL     string         `json:"control_url"`     // of the control API
	ClientID       string         `json:"client_id"`       // of the application
	ClientSecret   string         `json:"client_secret"`   // of the application
	RedirectURI    string         `json:"redirect_uri"`    // where users return after authorizing
	WebhookSecret  string         `json:"webhook_secret"`  // signs the webhooks
	ChallengeToken string         `json:"challenge_token"` // returned by a webhook endpoint
	ClinicKey      string         `json:"clinic_key"`      // for the header X-SVC-Clinic-Key
	Users          []SettingsUser `json:"users"`           // with passwords, for the sign-in page
}

// SettingsUser is a user of the fake platform's sign-in page.
type SettingsUser struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Type     string `json:"type"` // Practitioner or Staff
	ID       string `json:"id"`   // of the practitioner or staff member
}

func settingsOf(fake *dispensarytest.Server, options Options) Settings {
	app := fake.Application()
	settings := Settings{
		BaseURL: fake.Site().BaseURL, AuthURL: fake.Site().AuthURL, ConsoleURL: options.ConsoleURL, ControlURL: options.ControlURL,
		ClientID: app.ClientID, ClientSecret: app.ClientSecret, RedirectURI: app.RedirectURI,
		WebhookSecret: app.WebhookSecret, ChallengeToken: app.ChallengeToken, ClinicKey: fake.ClinicKey(),
	}
	for _, u := range fake.Users() {
		settings.Users = append(settings.Users, SettingsUser{Email: u.Email, Password: u.Password, Type: u.Type, ID: u.ID})
	}
	return settings
}
