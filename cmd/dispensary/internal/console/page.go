package console

import (
	"bytes"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// Handler is the console of one platform. It is safe for concurrent use.
type Handler struct {
	fake      *dispensarytest.Server
	api       *control.Handler
	templates *template.Template
	pages     []page
	outcomes  outcomes
	mux       http.Handler
}

// page is one page of the console, in the order of its navigation.
type page struct {
	Path  string // below the console's address
	Title string
	view  func(h *Handler, query url.Values) any
	ticks bool // it says how long something takes from now

	// operations of the control API are those that show or do what the page does.
	operations []string
}

// frame is what every page has.
type frame struct {
	Base  string // leads to the console's address from the page; "" is "./"
	Title string
	Here  string // the page's place in the navigation
	Path  string // of the page, with what it is filtered by, for buttons to come back to
	Live  bool   // the page is kept up to date
	Ticks bool   // even while nothing changes but the time
	Did   *outcome
	Calls []controlCall
	View  any

	// show fills these in.
	Pages  []page
	Now    time.Time
	Frozen bool
}

// Clocked writes a time in a row, without the day if it is today.
func (f *frame) Clocked(t time.Time) template.HTML {
	form := "2 Jan 15:04:05"
	if day(t) == day(f.Now) {
		form = time.TimeOnly
	}
	return webpage.ShortTime(t, f.Now, form)
}

// controlCall is an operation as programs run it.
type controlCall struct {
	control.Operation
	Call string // for a shell
}

// show makes a page whole before it sends it: a mistake in it does not look like
// half a page.
func (h *Handler) show(w http.ResponseWriter, status int, name string, f *frame) {
	f.Base, f.Pages, f.Now, f.Frozen = or(f.Base, "./"), h.pages, h.fake.Clock.Now(), h.fake.Clock.Frozen()
	var page bytes.Buffer
	if err := h.templates.ExecuteTemplate(&page, name, f); err != nil {
		http.Error(w, "console: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w) // fails only when the browser went away
}

// button does something at once, and comes back to the page it is on.
type button struct {
	Base, ID string // where the form goes
	Return   string // the page to come back to
	Label    string
	Of       string // whom or what it is about, for screen readers
	Fields   []field
}

type field struct{ Name, Value string }

// newButton makes a button of a page that runs an operation with some of its fields
// filled in.
func newButton(f *frame, id, label, of string, fields ...string) button {
	b := button{Base: f.Base, ID: id, Return: f.Path, Label: label, Of: of}
	for i := 0; i+1 < len(fields); i += 2 {
		b.Fields = append(b.Fields, field{fields[i], fields[i+1]})
	}
	return b
}

// next is when something falls due, zero when nothing waits.
func (h *Handler) next() time.Time {
	at, _ := h.fake.Clock.Next()
	return at
}
