package dispensarytest

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// FaultHandle is a fault that was set: it tells how often it has fired, and takes
// it away again.
type FaultHandle struct{ handle *faults.Handle }

// Fault sets a fault, from the next request or delivery on. A fault that is wrong
// in itself panics; see [model.Fault.Validate].
func (s *Server) Fault(f model.Fault) *FaultHandle {
	if err := f.Validate(); err != nil {
		panic(err)
	}
	f.Messages = slices.Clone(f.Messages)
	return &FaultHandle{s.faults.Add(f)}
}

// Faults returns the faults that are set, used-up ones included, in the order
// they were set in.
func (s *Server) Faults() []*FaultHandle {
	var handles []*FaultHandle
	for _, h := range s.faults.List() {
		handles = append(handles, &FaultHandle{h})
	}
	return handles
}

// ClearFaults removes every fault.
func (s *Server) ClearFaults() {
	for _, h := range s.Faults() {
		h.Remove()
	}
}

// ID names the fault on its platform: "fault-1" is the first that was set.
func (h *FaultHandle) ID() string { return h.handle.ID() }

// Fault is what was set.
func (h *FaultHandle) Fault() model.Fault { return h.handle.Fault() }

// Fired is how often the fault has harmed a request or a delivery so far.
func (h *FaultHandle) Fired() int { return h.handle.Fired() }

// Active reports that the fault is still set and not used up.
func (h *FaultHandle) Active() bool { return h.handle.Active() }

// Remove takes the fault away. What it has begun, such as a wait, goes on.
// Removing twice is fine.
func (h *FaultHandle) Remove() { h.handle.Remove() }

// String says what the fault is and how often it has fired.
func (h *FaultHandle) String() string { return h.handle.String() }
