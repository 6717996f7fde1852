package console

import (
	"encoding/json"
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
	last [64]outcome
}

// keep stores an outcome and returns its name in an address.
func (o *outcomes) keep(v outcome) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.last[o.n%len(o.last)] = v
	return strconv.Itoa(o.n)
}

// find returns nil for an outcome that is unknown or forgotten.
func (o *outcomes) find(name string) *outcome {
	n, err := strconv.Atoi(name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || n < 1 || n > o.n || n <= o.n-len(o.last) {
		return nil
	}
	v := o.last[n%len(o.last)]
	return &v
}

// outcome is an operation that ran, and its response.
type outcome struct {
	control.Operation
	Call   string // for a shell
	Status int
	Answer string
}

// Checks reports whether the answer is the verdict of a check.
func (v outcome) Checks() bool { return strings.HasPrefix(v.ID, "journal.check") }

// Result is the outcome of an accepted action: Done, or Passed or Failed for a check.
func (v outcome) Result() string {
	var verdict struct{ Passed bool }
	switch {
	case !v.Checks():
		return "Done"
	case json.Unmarshal([]byte(v.Answer), &verdict) == nil && verdict.Passed:
		return "Passed"
	}
	return "Failed"
}
