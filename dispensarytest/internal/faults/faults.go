// Package faults stores the faults that are set and decides which request or delivery each one
// affects.
package faults

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Handle is a fault that was set. It counts how often the fault has fired, and can remove it.
type Handle struct {
	set    *Set
	id     string
	fault  model.Fault
	met    int           // affected requests and deliveries, including spared ones
	fired  int           // how often it has fired
	recent []time.Time   // of a RateLimit: the requests accepted in the last window
	full   time.Duration // and the time until the window has room again
}

// ID returns the id of the fault on its platform. The first fault is "fault-1".
func (h *Handle) ID() string { return h.id }

// Fault returns a copy of the fault.
func (h *Handle) Fault() model.Fault {
	f := h.fault
	f.Messages = slices.Clone(f.Messages)
	return f
}

// Fired returns how often the fault has fired so far.
func (h *Handle) Fired() int {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return h.fired
}

// Active reports whether the fault is still set and not used up.
func (h *Handle) Active() bool {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return slices.Contains(h.set.all, h) && !h.spent()
}

// Remove removes the fault. An effect that has begun, such as a wait, continues. A second call
// does nothing.
func (h *Handle) Remove() {
	defer h.set.Changes.Notify()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	h.set.all = slices.DeleteFunc(h.set.all, func(other *Handle) bool { return other == h })
}

// concerns reports whether the fault affects an operation or event type. Depending on its
// effect, a fault has an operation or an event type, or affects all.
func (h *Handle) concerns(name string) bool {
	want := h.fault.Operation + h.fault.EventType
	return want == "" || want == name
}

// spent reports whether the fault has fired Times times. The caller holds mu.
func (h *Handle) spent() bool { return h.fault.Times > 0 && h.fired >= h.fault.Times }

// Set contains the faults of a platform.
type Set struct {
	Changes *clock.Notifier // of the platform

	mu  sync.Mutex
	n   int
	all []*Handle
}

func (s *Set) Add(f model.Fault) *Handle {
	defer s.Changes.Notify()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	h := &Handle{set: s, id: fmt.Sprintf("fault-%d", s.n), fault: f}
	s.all = append(s.all, h)
	return h
}

// List returns the faults that are set, in the order in which they were set.
func (s *Set) List() []*Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Any reports whether a fault is set.
func (s *Set) Any() bool { return len(s.List()) > 0 }

// Fire returns the first fault with one of effects that fires now for an operation or event
// type, and counts it.
func (s *Set) Fire(name string, now time.Time, effects ...model.Effect) (f model.Fault, fires bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if slices.Contains(effects, h.fault.Effect) && h.concerns(name) && h.fires(now) {
			f = h.fault
			if f.Effect == model.EffectRateLimit {
				f.RetryAfter = h.full
			}
			return f, true
		}
	}
	return model.Fault{}, false
}

// fires decides whether the fault fires this time, and counts. The caller holds mu.
func (h *Handle) fires(now time.Time) bool {
	if h.spent() {
		return false
	}
	h.met++
	if h.met <= h.fault.Skip || !h.isChosen() {
		return false
	}
	if h.fault.Effect == model.EffectRateLimit && h.hasRoom(now) {
		return false
	}
	h.fired++
	return true
}

// isChosen decides with the probability Chance.
func (h *Handle) isChosen() bool {
	if h.fault.Chance == 0 {
		return true
	}
	const resolution = 1 << 53
	roll := ids.Mix(h.fault.Seed^ids.Mix(uint64(h.met))) % resolution
	return float64(roll) < h.fault.Chance*resolution
}

// hasRoom counts a request in, unless the window is full. Assumption: rejected requests do not
// count.
func (h *Handle) hasRoom(now time.Time) bool {
	h.recent = slices.DeleteFunc(h.recent, func(at time.Time) bool { return now.Sub(at) >= h.fault.Window })
	if len(h.recent) >= h.fault.Limit {
		h.full = h.recent[0].Add(h.fault.Window).Sub(now)
		return false
	}
	h.recent = append(h.recent, now)
	return true
}
