package dispensarytest

import (
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// FaultHandle is a fault that was set on a platform.
type FaultHandle struct {
	ID    string // unique on the platform: "fault-1" is the first fault
	Fault model.Fault

	handle *faults.Handle
}

// Fault sets a fault, from the next request or delivery on. A fault that is wrong
// in itself panics; see [model.Fault.Validate].
func (s *Server) Fault(f model.Fault) *FaultHandle {
	if err := f.Validate(); err != nil {
		panic(err)
	}
	f.Messages = slices.Clone(f.Messages)
	return handleOf(s.faults.Add(f))
}

// Faults returns the faults that are set, used-up ones included, in the order
// they were set in.
func (s *Server) Faults() []*FaultHandle {
	var handles []*FaultHandle
	for _, h := range s.faults.List() {
		handles = append(handles, handleOf(h))
	}
	return handles
}

// ClearFaults removes every fault.
func (s *Server) ClearFaults() {
	for _, h := range s.Faults() {
		h.Remove()
	}
}

func handleOf(h *faults.Handle) *FaultHandle {
	return &FaultHandle{ID: h.ID(), Fault: h.Fault(), handle: h}
}

// Fired returns how often the fault has harmed a request or a delivery so far.
func (h *FaultHandle) Fired() int { return h.handle.Fired() }

// Active reports whether the fault is still set and not used up.
func (h *FaultHandle) Active() bool { return h.handle.Active() }

// Remove removes the fault. A wait that it has begun continues. Removing twice is fine.
func (h *FaultHandle) Remove() { h.handle.Remove() }
