package console

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
)

// outcomes remembers the last actions, so that the page that a button returns to can
// show the result, and reloading it does not repeat the action.
type outcomes struct {
	mu   sync.Mutex
	n    int // how many there were
	last [64]actionView
}

// keep stores an outcome and returns its name in an address.
func (o *outcomes) keep(v actionView) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.last[o.n%len(o.last)] = v
	return strconv.Itoa(o.n)
}

// find returns nil for an outcome that is unknown or forgotten.
func (o *outcomes) find(name string) *actionView {
	n, err := strconv.Atoi(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || n < 1 || n > o.n || n <= o.n-len(o.last) {
		return nil
	}
	v := o.last[n%len(o.last)]
	return &v
}

// actionView is the form of an action, and its outcome.
type actionView struct {
	control.Operation
	Words  string  // what it does
	First  *input  // what has to be chosen before there are other fields
	Inputs []input // the fields that matter
	Rarely []input // those that few need
	Call   string  // the control call, as far as it is filled in
	Sent   bool
	Status int
	Answer string
}

// Open reports that there are fields to fill in: what comes first is chosen.
func (v actionView) Open() bool { return v.First == nil || v.First.Value != "" }

// Checks reports that the answer is the verdict of a check.
func (v actionView) Checks() bool { return strings.HasPrefix(v.ID, "journal.check") }

// Result is the outcome of an accepted action: Done, or Passed or Failed for a check.
func (v actionView) Result() string {
	var verdict struct{ Passed bool }
	switch {
	case !v.Checks():
		return "Done"
	case json.Unmarshal([]byte(v.Answer), &verdict) == nil && verdict.Passed:
		return "Passed"
	}
	return "Failed"
}

// input is one field of the form.
type input struct {
	Name  string // of the form's field
	Label string
	Kind  string // "text", "number", "date", "choice", "check", "several", "list" or "json"
	Hint  string
	Value string
	Must  bool

	Choices []choice
	Others  bool // more than Choices can be entered
}

// Has reports that a list contains a value.
func (in input) Has(value string) bool { return slices.Contains(listOf(in.Value), value) }

// choice is something that a field of a form can be filled in with.
type choice struct{ Value, Label string }
