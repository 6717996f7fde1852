// Package faults holds the faults that are set, and decides which request or delivery
// meets one.
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

// Handle is a fault that was set: it tells how often it has fired, and takes
// it away again.
type Handle struct {
	set    *Set
	id     string
	fault  model.Fault
	met    int           // how many met it, unharmed ones included
	fired  int           // how many it has harmed
	recent []time.Time   // of a RateLimit: what was let through in the last window
	full   time.Duration // and how long it stays full
}

// ID names the fault on its platform: "fault-1" is the first that was set.
func (h *Handle) ID() string { return h.id }

// Fault is what was set.
func (h *Handle) Fault() model.Fault {
	f := h.fault
	f.Messages = slices.Clone(f.Messages)
	return f
}

// Fired is how often the fault has harmed a request or a delivery so far.
func (h *Handle) Fired() int {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return h.fired
}

// Active reports that the fault is still set and not used up.
func (h *Handle) Active() bool {
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	return slices.Contains(h.set.all, h) && !h.spent()
}

// Remove takes the fault away. What it has begun, such as a wait, goes on.
// Removing twice is fine.
func (h *Handle) Remove() {
	defer h.set.Changes.Notify()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	h.set.all = slices.DeleteFunc(h.set.all, func(other *Handle) bool { return other == h })
}

// concerns reports whether the fault is meant for an operation or event type. A fault has an
// operation or an event type, depending on its effect, or affects all.
func (h *Handle) concerns(name string) bool {
	want := h.fault.Operation + h.fault.EventType
	return want == "" || want == name
}

// spent reports that the fault has fired often enough. The caller holds mu.
func (h *Handle) spent() bool { return h.fault.Times > 0 && h.fired >= h.fault.Times }

// Set holds the faults of a platform.
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

// List returns the faults that are set, in the order they were set in.
func (s *Set) List() []*Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// Any reports whether there are faults at all.
func (s *Set) Any() bool { return len(s.List()) > 0 }

// Fire finds the first fault with one of the effects that fires for an operation
// or event type now, and counts it.
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

// fires decides about one encounter, and counts it. The caller holds mu.
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

// isChosen decides at random, with the probability Chance, whether the fault happens.
func (h *Handle) isChosen() bool {
	if h.fault.Chance == 0 {
		return true
	}
	const resolution = 1 << 53
	roll := ids.Mix(h.fault.Seed^ids.Mix(uint64(h.met))) % resolution
	return float64(roll) < h.fault.Chance*resolution
}

// hasRoom counts a request in, unless the window is full. Refused requests do not
// count: an assumption.
func (h *Handle) hasRoom(now time.Time) bool {
	h.recent = slices.DeleteFunc(h.recent, func(at time.Time) bool { return now.Sub(at) >= h.fault.Window })
	if len(h.recent) >= h.fault.Limit {
		h.full = h.recent[0].Add(h.fault.Window).Sub(now)
		return false
	}
	h.recent = append(h.recent, now)
	return true
}
