package console

import (
	"net/http"
	"slices"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
)

// program is an operation as programs run it.
type program struct {
	control.Operation
	Words string // what it does, where it does something
	Call  string // for a shell
}

// Acts reports that the operation has a page of its own, with a form.
func (p program) Acts() bool { return p.Method != http.MethodGet }

// programs are the operations behind a room, in its order.
func (h *Handler) programs(r room) (all []program) {
	known := control.Operations()
	for _, id := range r.operations {
		at := slices.IndexFunc(known, func(op control.Operation) bool { return op.ID == id })
		path, body := fill(known[at], nil) // a test finds ids that are not there
		all = append(all, program{known[at], titles[id], h.call(known[at], path, body)})
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
