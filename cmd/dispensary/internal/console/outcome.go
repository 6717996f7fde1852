package console

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
)

// outcomes stores the last 64 actions. The page after an action shows its result, and a reload
// does not repeat the action.
type outcomes struct {
	mu   sync.Mutex
	n    int // number of all outcomes so far
	last [64]outcome
}

// keep stores an outcome and returns its name for a URL.
func (o *outcomes) keep(v outcome) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.last[o.n%len(o.last)] = v
	return strconv.Itoa(o.n)
}

// find returns an outcome by name, or nil if it is unknown or no longer stored.
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

// outcome is an operation with its response.
type outcome struct {
	control.Operation
	Call   string // shell command
	Status int
	Answer string
}

// Checks reports whether the operation is a check.
func (v outcome) Checks() bool { return strings.HasPrefix(v.ID, "journal.check") }

// Result returns Done, or Passed or Failed for a check.
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
