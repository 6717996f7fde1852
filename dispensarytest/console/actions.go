package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/control"
)

// actions lists what can be done, by who does it.
func (h *Handler) actions() any {
	type group struct {
		Title string
		Rows  []control.Operation
	}
	groups := []group{{Title: "As a patient"}, {Title: "As a practitioner"}, {Title: "As the clinic"}, {Title: "As the catalog's editor"}, {Title: "As the platform"}}
	for _, op := range control.Operations() {
		if op.Method != http.MethodGet {
			at := actor(op.ID)
			groups[at].Rows = append(groups[at].Rows, op)
		}
	}
	return groups
}

// actor is the index of the group of an operation.
func actor(id string) int {
	what, _ := strings.CutPrefix(id, "platform.")
	switch {
	case what == id || what == "reset":
		return 4
	case strings.Contains(what, "patient") || strings.Contains(what, "order"):
		return 0
	case strings.Contains(what, "plan") || strings.Contains(what, "recommendation"):
		return 1
	case strings.Contains(what, "key"):
		return 2
	}
	return 3
}

// actionView is an action's form, and what came of it.
type actionView struct {
	control.Operation
	Inputs []input
	Call   string // the control call, as far as it is filled in
	Sent   bool
	Status int
	Answer string
}

// input is one field of the form.
type input struct {
	Name  string // of the form's field
	Label string
	Kind  string // "text", "number", "check", "list" or "json"
	Hint  string
	Value string
	Must  bool
}

func find(id string) (control.Operation, bool) {
	all := control.Operations()
	at := slices.IndexFunc(all, func(o control.Operation) bool { return o.ID == id && o.Method != http.MethodGet })
	if at < 0 {
		return control.Operation{}, false
	}
	return all[at], true
}

// form shows an action, with the fields that the address fills in.
func (h *Handler) form(w http.ResponseWriter, r *http.Request) {
	op, known := find(r.PathValue("id"))
	if !known {
		h.show(w, http.StatusNotFound, "action", "Not found", actionView{})
		return
	}
	v := h.viewOf(op, r.URL.Query())
	h.show(w, http.StatusOK, "action", op.ID, v)
}

// run does what the form says, through the control API.
func (h *Handler) run(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	op, known := find(r.PathValue("id"))
	if err := r.ParseForm(); err != nil || !known {
		h.show(w, http.StatusNotFound, "action", "Not found", actionView{})
		return
	}
	v := h.viewOf(op, r.PostForm)
	path, body := fill(op, r.PostForm)
	status, answer := h.api.Call(r.Context(), op.Method, path, body)
	v.Sent, v.Status, v.Answer = true, status, pretty(answer)
	h.show(w, status, "action", op.ID, v)
}

func (h *Handler) viewOf(op control.Operation, values url.Values) actionView {
	path, body := fill(op, values)
	call := "curl "
	if op.Method != http.MethodPost {
		call += "-X " + op.Method + " "
	}
	v := actionView{Operation: op, Call: call + "--json " + quoted(string(body)) + " " + quoted(h.api.Settings().ControlURL+path)}
	for _, name := range op.Parameters() {
		v.Inputs = append(v.Inputs, input{Name: name, Label: words(name), Kind: "text", Value: values.Get(name), Must: true})
	}
	for _, f := range op.Fields() {
		kind, hint := inputKind(f.Type)
		v.Inputs = append(v.Inputs, input{Name: "body." + f.Name, Label: words(f.Name), Kind: kind, Hint: hint, Value: values.Get("body." + f.Name)})
	}
	return v
}

func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// inputKind is how a Go type is entered.
func inputKind(t reflect.Type) (kind, hint string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "text", "such as 1m30s"
	case reflect.TypeFor[time.Time]():
		return "text", "such as 2026-03-02T09:00:00Z"
	case reflect.TypeFor[dispensarytest.Cents]():
		return "text", "such as 19.99"
	case reflect.TypeFor[[]string]():
		return "list", "with commas between"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "check", ""
	case reflect.String:
		return "text", ""
	case reflect.Struct, reflect.Slice:
		return "json", "as JSON"
	}
	return "number", ""
}

// fill makes the call that a form stands for. What is empty is left out.
func fill(op control.Operation, values url.Values) (path string, body []byte) {
	path = op.Path
	for _, name := range op.Parameters() {
		value := "{" + name + "}"
		if given := strings.TrimSpace(values.Get(name)); given != "" {
			value = url.PathEscape(given)
		}
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	members := map[string]json.RawMessage{}
	for _, f := range op.Fields() {
		if value := strings.TrimSpace(values.Get("body." + f.Name)); value != "" {
			members[f.Name] = member(f.Type, value)
		}
	}
	body, _ = json.Marshal(members) // every member is valid JSON
	return path, body
}

// member is what was entered as JSON. What does not fit goes to the control API as
// a string, which says what is wrong with it.
func member(t reflect.Type, value string) json.RawMessage {
	kind, _ := inputKind(t)
	text, _ := json.Marshal(value) // strings always encode
	switch kind {
	case "check":
		return json.RawMessage("true")
	case "list":
		list, _ := json.Marshal(strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })) // as above
		return list
	case "number", "json":
		if json.Valid([]byte(value)) {
			return json.RawMessage(value)
		}
	}
	return text
}
