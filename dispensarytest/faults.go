package dispensarytest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
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
func (s *Server) Faults() []*FaultHandle { return table.Map(s.faults.List(), handleOf) }

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

// WithBehavior chooses variants for points that the API leaves open. [New] and [Start] fail if
// a variant is not in [behavior.Choices].
func WithBehavior(variants ...behavior.Variant) Option {
	return func(s *settings) error {
		for _, v := range variants {
			if err := s.rules.Choose(v); err != nil {
				return invalid("WithBehavior", err)
			}
		}
		return nil
	}
}

// WithBehaviorsFile chooses the variants in a file that "dispensary probe" wrote about a
// sandbox. Choices that are absent from the file keep the variant of an earlier option, or the
// default. A later [WithBehavior] overrides the file.
func WithBehaviorsFile(name string) Option {
	return func(s *settings) error {
		content, err := readText("WithBehaviorsFile", name)
		if err != nil {
			return err
		}
		if err := s.rules.ChooseFile(content); err != nil {
			return invalid("WithBehaviorsFile", fmt.Errorf("%s: %w", name, err))
		}
		return nil
	}
}

// SetBehavior changes a behavior while the platform runs, from the next request or
// delivery on. It fails if v is not in [behavior.Choices].
func (s *Server) SetBehavior(v behavior.Variant) error {
	defer s.changes.Notify()
	s.store.Lock()
	defer s.store.Unlock()
	changed := *s.rules.Get()
	if err := changed.Choose(v); err != nil {
		return err
	}
	s.rules.put(changed, &s.faults)
	return nil
}

// Behaviors returns the chosen variants, one for each of [behavior.Choices], in the same
// order.
func (s *Server) Behaviors() []behavior.Variant { return s.rules.Get().Variants() }

// ruleSet contains the rules of the platform, and the fault that implements one of them.
type ruleSet struct {
	rules.Current
	limit *faults.Handle // of the behavior rate-limit
}

// put changes the rules.
func (c *ruleSet) put(r rules.Set, all *faults.Set) {
	c.Set(r)
	switch {
	case r.Is(behavior.RateLimit5000In5m) && c.limit == nil:
		c.limit = all.Add(model.Fault{Effect: model.EffectRateLimit, Limit: 5000, Window: 5 * time.Minute})
	case !r.Is(behavior.RateLimit5000In5m) && c.limit != nil:
		c.limit.Remove()
		c.limit = nil
	}
}
