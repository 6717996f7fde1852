package dispensarytest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// FaultHandle is a fault that was set: it tells how often it has fired, and takes
// it away again.
type FaultHandle struct {
	set    *faultSet
	id     string
	fault  Fault
	met    int           // how many met it, unharmed ones included
	fired  int           // how many it has harmed
	recent []time.Time   // of a RateLimit: what was let through in the last window
	full   time.Duration // and how long it stays full
}

// Fault sets a fault, from the next request or delivery on. A fault that is wrong
// in itself panics; see [Fault.Validate].
func (s *Server) Fault(f Fault) *FaultHandle {
	if err := f.Validate(); err != nil {
		panic(err)
	}
	f.Messages = slices.Clone(f.Messages)
	return s.faults.add(f)
}

// Faults returns the faults that are set, used-up ones included, in the order
// they were set in.
func (s *Server) Faults() []*FaultHandle {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return slices.Clone(s.faults.all)
}

// ClearFaults removes every fault.
func (s *Server) ClearFaults() {
	for _, h := range s.Faults() {
		h.Remove()
	}
}

// ID names the fault on its platform: "fault-1" is the first that was set.
func (h *FaultHandle) ID() string { return h.id }

// Fault is what was set.
func (h *FaultHandle) Fault() Fault {
	f := h.fault
	f.Messages = slices.Clone(f.Messages)
	return f
}

// Fired is how often the fault has harmed a request or a delivery so far.
func (h *FaultHandle) Fired() int {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return h.fired
}

// Active reports that the fault is still set and not used up.
func (h *FaultHandle) Active() bool {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return slices.Contains(h.set.all, h) && !h.spent()
}

// Remove takes the fault away. What it has begun, such as a wait, goes on.
// Removing twice is fine.
func (h *FaultHandle) Remove() {
	defer h.set.changes.Notify()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	h.set.all = slices.DeleteFunc(h.set.all, func(other *FaultHandle) bool { return other == h })
	h.set.any.Store(len(h.set.all) > 0)
}

// String says what the fault is and how often it has fired.
func (h *FaultHandle) String() string {
	return fmt.Sprintf("%s %s: fired %d times", h.id, h.fault, h.Fired())
}

// spent reports that the fault has fired often enough. The caller holds mu.
func (h *FaultHandle) spent() bool { return h.fault.Times > 0 && h.fired >= h.fault.Times }

// faultSet holds the faults of a platform.
type faultSet struct {
	changes *clock.Notifier // of the platform

	any atomic.Bool // whether there are faults at all; most platforms have none

	mu  sync.Mutex
	n   int
	all []*FaultHandle
}

func (s *faultSet) add(f Fault) *FaultHandle {
	defer s.changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	h := &FaultHandle{set: s, id: fmt.Sprintf("fault-%d", s.n), fault: f}
	s.all = append(s.all, h)
	s.any.Store(true)
	return h
}

// fire finds the first fault with one of the effects that fires for an operation
// or event type now, and counts it.
func (s *faultSet) fire(name string, now time.Time, effects ...Effect) (f Fault, fires bool) {
	if !s.any.Load() {
		return Fault{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if slices.Contains(effects, h.fault.Effect) && h.fault.about(name) && h.fires(now) {
			f = h.fault
			if f.Effect == RateLimit {
				f.RetryAfter = h.full
			}
			return f, true
		}
	}
	return Fault{}, false
}

// fires decides about one encounter, and counts it. The caller holds mu.
func (h *FaultHandle) fires(now time.Time) bool {
	if h.spent() {
		return false
	}
	h.met++
	if h.met <= h.fault.Skip || !h.unlucky() {
		return false
	}
	if h.fault.Effect == RateLimit && h.hasRoom(now) {
		return false
	}
	h.fired++
	return true
}

// unlucky throws the dice of a chance.
func (h *FaultHandle) unlucky() bool {
	if h.fault.Chance == 0 {
		return true
	}
	const resolution = 1 << 53
	throw := mix(h.fault.Seed^mix(uint64(h.met))) % resolution
	return float64(throw) < h.fault.Chance*resolution
}

// hasRoom counts a request in, unless the window is full. Refused requests do not
// count: an assumption.
func (h *FaultHandle) hasRoom(now time.Time) bool {
	h.recent = slices.DeleteFunc(h.recent, func(at time.Time) bool { return now.Sub(at) >= h.fault.Window })
	if len(h.recent) >= h.fault.Limit {
		h.full = h.recent[0].Add(h.fault.Window).Sub(now)
		return false
	}
	h.recent = append(h.recent, now)
	return true
}
