// Package pages implements the web pages for people and contains all page templates. The pages
// are the plan editor behind a dynamic link, the in-office checkout, and the invitation of a
// patient.
package pages

import (
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/actions"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// The authorize page also uses these templates. A visitor acts through an action of package
// actions, which emits its events. The pages need no sign-in: with a link, the visitor acts as
// the practitioner or patient of its plan. That is an assumption.

//go:embed *.html
var pageFiles embed.FS

var pageTemplates = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(pageFiles, "*.html"))
})

// Pages serves the plan editor, the invitation and the checkout.
type Pages struct {
	Store       *store.Store
	Actions     *actions.Actions
	Behaviors   *rules.Current
	RequestIDs  *ids.Requests
	Environment api.Environment
	RequireTLS  bool
}

// visitor is one request for a page.
type visitor struct {
	*Pages
	w  http.ResponseWriter
	r  *http.Request
	id string // of the plan, or "" if there is none yet

	clinicID string // clinic of the people in the plan editor
}

// pageFor returns the page at a path.
func pageFor(path string) (show func(*visitor), id string) {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	switch {
	case len(parts) == 2 && parts[0] == "plans" && parts[1] == "new":
		return (*visitor).newPlan, ""
	case len(parts) == 3 && parts[0] == "plans" && parts[2] == "edit":
		return (*visitor).editPlan, parts[1]
	case len(parts) == 3 && parts[0] == "plans" && parts[2] == "invitation":
		return (*visitor).invitation, parts[1]
	case len(parts) == 2 && parts[0] == "checkouts":
		return (*visitor).checkout, parts[1]
	}
	return nil, ""
}

// Serve responds to a browser on one of the pages and reports whether there is a page. A page
// is not a call of the API. It needs no token and does not appear in the journal.
func (p *Pages) Serve(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/favicon.ico" { // browsers request it on their own
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = io.WriteString(w, string(webpage.Icon)) // fails only if the browser has left
		return true
	}
	show, id := pageFor(r.URL.Path)
	if show == nil {
		return false
	}
	w.Header()["X-Request-Id"] = []string{p.RequestIDs.Next()}
	v := &visitor{Pages: p, w: w, r: r, id: id}
	if err := v.read(); err != nil {
		return true
	}
	show(v)
	return true
}

// errResponded means that the response was already sent.
var errResponded = errors.New("responded")

// read checks the request and reads its form.
func (v *visitor) read() error {
	switch {
	case v.RequireTLS && v.r.TLS == nil:
		return v.problem(http.StatusForbidden, "HTTPS is required.")
	case v.r.Method == http.MethodGet || v.r.Method == http.MethodHead:
		return nil
	case v.r.Method != http.MethodPost:
		v.w.Header().Set("Allow", "GET, HEAD, POST")
		return v.problem(http.StatusMethodNotAllowed, "This page accepts only GET, HEAD and POST requests.")
	case http.NewCrossOriginProtection().Check(v.r) != nil:
		return v.problem(http.StatusForbidden, "This form was sent from another site.")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if v.r.ParseForm() != nil {
		return v.problem(http.StatusBadRequest, "The form is malformed.")
	}
	return nil
}

// posted reports whether a form was sent.
func (v *visitor) posted() bool { return v.r.Method == http.MethodPost }

func (v *visitor) field(name string) string { return strings.TrimSpace(v.r.PostForm.Get(name)) }

// indexed returns the field of one line of a form.
func (v *visitor) indexed(name string, line int) string {
	return v.field(fmt.Sprintf("%s.%d", name, line))
}

// maxForm limits the body of a form.
const maxForm = 1 << 20

// maxLines limits the lines of a form and of an edited plan.
const maxLines = 200

// Frame contains the data that all pages share.
type Frame struct {
	Title   string
	Message string // the reason for a rejection
	Notice  string // a completed action
	Leaves  bool   // its form leads to another site, as on the authorize page
	Nonce   string

	Currency string // of the prices
}

// problem shows an error page.
func (v *visitor) problem(status int, message string) error {
	v.show(status, "problem", &Frame{Title: http.StatusText(status), Message: message}, nil)
	return errResponded
}

// show sends a page.
func (v *visitor) show(status int, name string, f *Frame, view any) {
	f.Currency = currency(v.Environment)
	f.Send(v.w, status, name, view)
}

// Send sends a page that loads and runs nothing.
func (f *Frame) Send(w http.ResponseWriter, status int, name string, view any) {
	f.Nonce = rand.Text()
	policy, referrer := "form-action 'self'; ", "same-origin"
	if f.Leaves {
		// Browsers also apply form-action to the redirect after a form.
		policy, referrer = "", "no-referrer"
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", referrer)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+f.Nonce+"'; "+policy+"base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_ = pageTemplates().ExecuteTemplate(w, name, struct {
		*Frame
		View any
		Base template.CSS
		Icon template.HTML
	}{f, view, webpage.Base, webpage.Icon}) // fails only if the browser has left
}

// leave redirects the browser to a URL relative to the page, so that reloading does not send
// the form again.
func (v *visitor) leave(to string) { SeeOther(v.w, to) }

// SeeOther redirects the browser to a URL.
func SeeOther(w http.ResponseWriter, to string) int {
	w.Header().Set("Location", to)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return http.StatusSeeOther
}

// inWords returns the text of an action's error for people.
func inWords(err error) string {
	text := err.Error()
	if failed := (*store.ActionError)(nil); errors.As(err, &failed) {
		text = failed.Detail
	}
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:] + "."
}

// currency returns the currency code of a region's prices.
func currency(environment api.Environment) string {
	if environment == api.CanadaSandbox {
		return "CAD"
	}
	return "USD"
}
