package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/terminal"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// operation returns the control API operation with this id.
func operation(id string) (control.Operation, bool) {
	all := control.Operations()
	at := slices.IndexFunc(all, func(o control.Operation) bool { return o.ID == id })
	if at < 0 {
		return control.Operation{}, false
	}
	return all[at], true
}

// maxForm is the largest form of a button, in bytes.
const maxForm = 1 << 20

// runAction runs the operation of a button through the control API. It redirects the browser
// to the page with the result. If the API rejects the operation, it shows the error on a
// separate page.
func (h *Handler) runAction(w http.ResponseWriter, r *http.Request) {
	op, known := operation(r.PathValue("id"))
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil || !known || op.Method == http.MethodGet {
		h.show(w, http.StatusNotFound, "problem", &frame{Base: "../", Title: "Not found", View: "The action does not exist, or its form is invalid."})
		return
	}
	h.notBackwards(op, r.PostForm)
	path, body := fill(op, r.PostForm)
	status, response := h.api.Call(r.Context(), op.Method, path, bytes.NewReader(body))
	did := outcome{op, h.call(op, path, body), status, webpage.Pretty(response)}
	if status >= 400 {
		h.show(w, status, "rejected", &frame{Base: "../", Title: "Rejected", View: did})
		return
	}
	to := h.comeBack(r.PostForm.Get("return"))
	name := "?did="
	if strings.Contains(to, "?") {
		name = "&did="
	}
	w.Header().Set("Location", to+name+h.outcomes.Keep(did))
	w.WriteHeader(http.StatusSeeOther)
}

// comeBack returns the URL of the button's page with its filter, or of the first page if the
// page does not exist.
func (h *Handler) comeBack(to string) string {
	path, query, _ := strings.Cut(to, "?")
	values, err := url.ParseQuery(query)
	if err != nil || !slices.ContainsFunc(h.pages, func(r page) bool { return r.Path == path }) {
		return "../"
	}
	return "../" + path + filterQuery(values)
}

// notBackwards replaces the target time of a button by the current time, if a running clock
// has passed it since the page was rendered.
func (h *Handler) notBackwards(op control.Operation, values url.Values) {
	now := h.fake.Clock.Now()
	if to, err := time.Parse(time.RFC3339, values.Get("body.to")); err == nil && op.ID == "clock.advance" && to.Before(now) {
		values.Set("body.to", now.Format(time.RFC3339Nano))
	}
}

// fill returns the path and body of an operation with the values of a form. It omits empty
// values.
func fill(op control.Operation, values url.Values) (path string, body []byte) {
	path = op.Path
	for _, name := range op.Parameters() {
		if given := values.Get(name); given != "" {
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(given))
		}
	}
	members := map[string]json.RawMessage{}
	for _, f := range op.Fields() {
		if value := strings.TrimSpace(values.Get("body." + f.Name)); value != "" {
			members[f.Name] = member(f.Type, value)
		}
	}
	body, _ = json.Marshal(members) // cannot fail, because every member is valid JSON
	return path, body
}

// member returns a form value as JSON. A value of the wrong type becomes a string, and the
// control API rejects it with a reason.
func member(t reflect.Type, value string) json.RawMessage {
	var text []byte
	switch {
	case t == reflect.TypeFor[[]string]():
		text, _ = json.Marshal([]string{value}) // strings always encode
	case t.Kind() == reflect.Int && json.Valid([]byte(value)):
		text = []byte(value)
	default:
		text, _ = json.Marshal(value)
	}
	return text
}

// controlCalls returns the operations behind a page, in its order.
func (h *Handler) controlCalls(r page) (all []controlCall) {
	for _, id := range r.operations {
		op, _ := operation(id) // a test checks that all ids exist
		path, body := fill(op, nil)
		all = append(all, controlCall{op, h.call(op, path, body)})
	}
	return all
}

// call returns the shell command of an operation.
func (h *Handler) call(op control.Operation, path string, body []byte) string {
	command := "curl "
	switch op.Method {
	case http.MethodGet:
	case http.MethodPost:
		command += "--json " + terminal.Quote(string(body)) + " "
	default:
		command += "-X " + op.Method + " --json " + terminal.Quote(string(body)) + " "
	}
	return command + terminal.Quote(h.api.Settings().ControlURL+path)
}

// outcome is an operation with its response.
type outcome struct {
	control.Operation
	Call     string // shell command
	Status   int
	Response string
}

// Checks reports whether the operation is a check.
func (v outcome) Checks() bool { return strings.HasPrefix(v.ID, "journal.check") }

// Result returns Done, or Passed or Failed for a check.
func (v outcome) Result() string {
	var verdict struct{ Passed bool }
	switch {
	case !v.Checks():
		return "Done"
	case json.Unmarshal([]byte(v.Response), &verdict) == nil && verdict.Passed:
		return "Passed"
	}
	return "Failed"
}

// preset is a fault with its own button.
type preset struct {
	Label  string
	fields []string // alternating names and values
}

var presets = []preset{
	{"Reject the next request with 503", []string{"body.effect", "error_status", "body.status", "503", "body.times", "1"}},
	{"Reject the next 3 requests with 429, for 30 s", []string{"body.effect", "too_many_requests", "body.retry_after", "30s", "body.times", "3"}},
	{"Delay the next request by 5 s", []string{"body.effect", "latency", "body.delay", "5s", "body.times", "1"}},
	{"Lose the next response, after the change", []string{"body.effect", "drop_after_commit", "body.times", "1"}},
	{"Expire the token of the next request", []string{"body.effect", "token_expired", "body.times", "1"}},
	{"Allow 5 requests in 10 s", []string{"body.effect", "rate_limit", "body.limit", "5", "body.window", "10s"}},
	{"Send the next webhook twice", []string{"body.effect", "delivery_repeated", "body.times", "1"}},
	{"Lose the next webhook", []string{"body.effect", "delivery_lost", "body.times", "1"}},
	{"Sign the next webhook with another secret", []string{"body.effect", "delivery_forged", "body.times", "1"}},
	{"Swap the next two webhooks", []string{"body.effect", "delivery_reordered", "body.times", "1"}},
}

func newPresetButton(f *frame, p preset) button {
	return newButton(f, "faults.set", p.Label, "", p.fields...)
}
