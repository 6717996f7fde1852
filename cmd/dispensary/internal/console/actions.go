package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// actions lists what can be done, grouped by the person who does it.
func (h *Handler) actions(url.Values) any {
	type row struct {
		control.Operation
		Words string
	}
	type group struct {
		Title string
		Rows  []row
	}
	groups := []group{{Title: "As a patient"}, {Title: "As a practitioner"}, {Title: "As the clinic"}, {Title: "As the catalog's editor"}, {Title: "As the platform"}}
	for _, op := range control.Operations() {
		if op.Method != http.MethodGet {
			at := actor(op.ID)
			groups[at].Rows = append(groups[at].Rows, row{op, actionTitles[op.ID]})
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

func find(id string) (control.Operation, bool) {
	all := control.Operations()
	at := slices.IndexFunc(all, func(o control.Operation) bool { return o.ID == id && o.Method != http.MethodGet })
	if at < 0 {
		return control.Operation{}, false
	}
	return all[at], true
}

// serveForm shows an action, with the fields that the address fills in, or with what
// was sent last.
func (h *Handler) serveForm(w http.ResponseWriter, r *http.Request) {
	op, known := find(r.PathValue("id"))
	if !known {
		h.noAction(w)
		return
	}
	v := h.viewOf(op, r.URL.Query())
	if did := h.outcomes.find(r.URL.Query().Get("did")); did != nil && did.ID == op.ID {
		v = *did
	}
	h.showAction(w, http.StatusOK, v)
}

func (h *Handler) noAction(w http.ResponseWriter) {
	h.show(w, http.StatusNotFound, "problem", &frame{
		Base: "../", Title: "Not found", Here: "Actions", View: "There is no such action, or its form is malformed.",
	})
}

func (h *Handler) showAction(w http.ResponseWriter, status int, v actionView) {
	h.show(w, status, "action", &frame{Base: "../", Title: v.Words, Here: "Actions", View: v})
}

// runAction runs what a form or a button asks for, through the control API. The browser
// is redirected to the page that shows the result; a refusal is shown with its form.
func (h *Handler) runAction(w http.ResponseWriter, r *http.Request) {
	op, known := find(r.PathValue("id"))
	uploaded, closed, err := readForm(w, r, op)
	if err != nil || !known {
		h.noAction(w)
		return
	}
	defer closed()
	h.notBackwards(op, r.PostForm)
	v := h.viewOf(op, r.PostForm)
	path, filled := fill(op, r.PostForm)
	body := io.Reader(bytes.NewReader(filled))
	if op.Upload {
		body = uploaded
	}
	status, answer := h.api.Call(r.Context(), op.Method, path, body)
	v.Sent, v.Status, v.Answer = true, status, webpage.Pretty(answer)
	if status >= 400 {
		h.showAction(w, status, v)
		return
	}
	to := "./" + op.ID
	if page := r.PostForm.Get("return"); r.PostForm.Has("return") {
		to = h.comeBack(page, to)
	}
	did := "?did="
	if strings.Contains(to, "?") {
		did = "&did="
	}
	w.Header().Set("Location", to+did+h.outcomes.keep(v))
	w.WriteHeader(http.StatusSeeOther)
}

// Bounds of a form, and of one with a file, of which so much is kept in memory.
const (
	maxForm     = 1 << 20
	maxUpload   = 1 << 30
	uploadInRAM = 1 << 20
)

// readForm reads the form of an action, and the file that goes with it where the
// action takes one. closed removes the file.
func readForm(w http.ResponseWriter, r *http.Request, op control.Operation) (uploaded io.Reader, closed func(), err error) {
	if !op.Upload {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		return nil, func() {}, r.ParseForm()
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload)
	if err := r.ParseMultipartForm(uploadInRAM); err != nil {
		return nil, nil, err
	}
	file, _, err := r.FormFile("file")
	if err != nil {
		_ = r.MultipartForm.RemoveAll()
		return nil, nil, err
	}
	return file, func() { _ = errors.Join(file.Close(), r.MultipartForm.RemoveAll()) }, nil
}

// comeBack is the address of the page that a button is on, with its filter; otherwise,
// if there is no such page.
func (h *Handler) comeBack(to, otherwise string) string {
	path, query, _ := strings.Cut(to, "?")
	values, err := url.ParseQuery(query)
	if err != nil || !slices.ContainsFunc(h.pages, func(r page) bool { return r.Path == path }) {
		return otherwise
	}
	return "../" + path + filterQuery(values)
}

// notBackwards makes the time that a clock is moved to the present one, where a
// running clock has passed it since its button was shown.
func (h *Handler) notBackwards(op control.Operation, values url.Values) {
	now := h.fake.Clock().Now()
	if to, err := time.Parse(time.RFC3339, values.Get("body.to")); err == nil && op.ID == "clock.advance" && to.Before(now) {
		values.Set("body.to", now.Format(time.RFC3339Nano))
	}
}

func (h *Handler) viewOf(op control.Operation, values url.Values) actionView {
	path, body := fill(op, values)
	v := actionView{Operation: op, Words: actionTitles[op.ID], Call: h.call(op, path, body)}
	for _, name := range op.Parameters() {
		in := input{Name: name, Label: words(name), Kind: "text", Value: values.Get(name), Must: true, Choices: h.choices(name)}
		in.choose()
		v.Inputs = append(v.Inputs, in)
	}
	for _, f := range op.Fields() {
		if unitsOf[f.Name] != "" {
			v.Inputs = append(v.Inputs, h.productInputs("body."+f.Name, values)...)
			continue
		}
		in := input{Name: "body." + f.Name, Label: words(f.Name), Value: given(f, values), Choices: h.choices(f.Name)}
		switch in.Kind, in.Hint = fieldKind(f); in.Kind {
		case "text":
			in.choose()
		case "list":
			in.chooseSeveral()
		}
		v.Inputs = append(v.Inputs, in)
	}
	if op.ID == "faults.set" {
		v.arrange()
	}
	return v
}

// unitsOf are the fields that list products, and their member for how many of each.
var unitsOf = map[string]string{"lines": "quantity", "recommendations": "units_to_purchase"}

// mostProducts is how many products a form takes; a program gives as many as it likes.
const mostProducts = 3

// productInputs ask for products and how many of each.
func (h *Handler) productInputs(field string, values url.Values) (all []input) {
	for n := range mostProducts {
		at, number := field+"."+strconv.Itoa(n), strconv.Itoa(n+1)
		product := input{Name: at + ".variant", Label: "Product " + number, Kind: "text", Value: values.Get(at + ".variant"), Choices: h.choices("variant_id")}
		product.choose()
		all = append(all, product, input{Name: at + ".units", Label: "Units of product " + number, Kind: "number", Hint: "1 unless set", Value: values.Get(at + ".units")})
	}
	return all
}

// products are the products of a form as JSON; none where none is chosen.
func products(field string, values url.Values) json.RawMessage {
	var lines []map[string]json.RawMessage
	for n := range mostProducts {
		at := "body." + field + "." + strconv.Itoa(n)
		if variant := strings.TrimSpace(values.Get(at + ".variant")); variant != "" {
			lines = append(lines, map[string]json.RawMessage{
				"variant_id": member(reflect.TypeFor[string](), variant), unitsOf[field]: member(reflect.TypeFor[int](), or(values.Get(at+".units"), "1")),
			})
		}
	}
	if lines == nil {
		return nil
	}
	list, _ := json.Marshal(lines) // every member is valid JSON
	return list
}

// arrange asks for the effect of a fault first, and then for the fields that it reads.
func (v *actionView) arrange() {
	all := v.Inputs
	v.Inputs = nil
	chosen := effectNamed(all[slices.IndexFunc(all, ofField("effect"))].Value)
	for _, in := range all {
		name := strings.TrimPrefix(in.Name, "body.")
		in.Hint = or(faultHints[name], in.Hint)
		switch {
		case name == "effect":
			if v.First = &in; chosen == nil {
				v.First.Value = ""
			}
		case chosen == nil || !chosen.reads(name):
		case slices.Contains(rarely, name):
			v.Rarely = append(v.Rarely, in)
		default:
			v.Inputs = append(v.Inputs, in)
		}
	}
}

// choose makes a field of which all choices are known one to choose from. In a larger
// world they are proposed, and an id can be entered.
func (in *input) choose() {
	if len(in.Choices) == 0 || len(in.Choices) >= latest {
		return
	}
	in.Kind = "choice"
	if in.Value != "" && !slices.ContainsFunc(in.Choices, func(c choice) bool { return c.Value == in.Value }) {
		in.Choices = append(in.Choices, choice{Value: in.Value}) // of an address, or of what was there before
	}
}

// chooseSeveral makes a field that takes a list one of boxes to check, where there is
// something to choose from. In a larger world the latest are offered, and other ids can be
// entered beside them.
func (in *input) chooseSeveral() {
	if len(in.Choices) == 0 {
		return
	}
	in.Kind, in.Hint, in.Others = "several", "", len(in.Choices) >= latest
	for _, value := range listOf(in.Value) {
		if !slices.ContainsFunc(in.Choices, func(c choice) bool { return c.Value == value }) {
			in.Choices = append(in.Choices, choice{Value: value})
		}
	}
}

func ofField(name string) func(input) bool {
	return func(in input) bool { return in.Name == "body."+name }
}

// words is the name of a field for people: what is chosen is a patient, no id.
func words(name string) string {
	if several, cut := strings.CutSuffix(name, "_ids"); cut {
		name = several + "s"
	}
	if name = strings.TrimSuffix(name, "_id"); name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "_", " ")
}

// fieldKind is how a field is entered: as its name asks for, or as its type does.
func fieldKind(f control.Field) (kind, hint string) {
	switch f.Name {
	case "effect", "gender":
		return "choice", ""
	case "date_of_birth":
		return "date", ""
	}
	return inputKind(f.Type)
}

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
	case reflect.TypeFor[model.Cents]():
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
		if value := given(f, values); value != "" {
			members[f.Name] = member(f.Type, value)
		} else if list := products(f.Name, values); list != nil {
			members[f.Name] = list
		}
	}
	body, _ = json.Marshal(members) // every member is valid JSON
	return path, body
}

// given is what was entered into a field: for a list all that was checked and entered, with
// commas between.
func given(f control.Field, values url.Values) string {
	if kind, _ := fieldKind(f); kind == "list" {
		return strings.Join(listOf(values["body."+f.Name]...), ", ")
	}
	return strings.TrimSpace(values.Get("body." + f.Name))
}

// listOf takes texts apart that have commas between them.
func listOf(texts ...string) (list []string) {
	for part := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
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
		list, _ := json.Marshal(listOf(value)) // as above
		return list
	case "number", "json":
		if json.Valid([]byte(value)) {
			return json.RawMessage(value)
		}
	}
	return text
}

// programs are the operations behind a page, in its order.
func (h *Handler) controlCalls(r page) (all []controlCall) {
	known := control.Operations()
	for _, id := range r.operations {
		at := slices.IndexFunc(known, func(op control.Operation) bool { return op.ID == id })
		path, body := fill(known[at], nil) // a test finds ids that are not there
		all = append(all, controlCall{known[at], actionTitles[id], h.call(known[at], path, body)})
	}
	return all
}

// call runs an operation from a shell.
func (h *Handler) call(op control.Operation, path string, body []byte) string {
	command := "curl "
	switch {
	case op.Method == http.MethodGet:
	case op.Upload: // curl puts what it uploads
		command += "-T file "
	case op.Method == http.MethodPost:
		command += "--json " + quoted(string(body)) + " "
	default:
		command += "-X " + op.Method + " --json " + quoted(string(body)) + " "
	}
	return command + quoted(h.api.Settings().ControlURL+path)
}
