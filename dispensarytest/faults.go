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

// Fault sets a fault, from the next request or delivery on. It panics if the fault is invalid.
// See [model.Fault.Validate].
func (s *Server) Fault(f model.Fault) *FaultHandle {
	if err := f.Validate(); err != nil {
		panic(err)
	}
	f.Messages = slices.Clone(f.Messages)
	return handleOf(s.faults.Add(f))
}

// Faults returns the faults that are set, including used-up ones, in the order in which they
// were set.
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

// Fired returns how often the fault has fired on a request or a delivery so far.
func (h *FaultHandle) Fired() int { return h.handle.Fired() }

// Active reports whether the fault is still set and not used up.
func (h *FaultHandle) Active() bool { return h.handle.Active() }

// Remove removes the fault. A wait that it has begun continues. A second call does nothing.
func (h *FaultHandle) Remove() { h.handle.Remove() }
