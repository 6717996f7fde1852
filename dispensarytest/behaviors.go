package dispensarytest

import (
	"fmt"
	"os"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

// WithBehavior chooses variants of the points that the API leaves open. A variant that is
// not in [behavior.Choices] fails on construction.
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

// WithBehaviorsFile chooses the variants in the file that "dispensary probe" wrote about a
// sandbox. Choices that the file does not name keep the variant of an earlier option, or the
// default. A later [WithBehavior] wins.
func WithBehaviorsFile(name string) Option {
	return func(s *settings) error {
		content, err := os.ReadFile(name)
		if err != nil {
			return invalid("WithBehaviorsFile", err)
		}
		if content, err = textfile.Decode(content); err != nil {
			return invalid("WithBehaviorsFile", fmt.Errorf("%s: the file %w", name, err))
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
	s.putRules(changed)
	return nil
}

// Behaviors returns the variants in force, one for each of [behavior.Choices], in the same
// order.
func (s *Server) Behaviors() []behavior.Variant {
	return s.rules.Get().Variants()
}

// putRules puts rules in force.
func (s *Server) putRules(r rules.Set) {
	s.rules.Set(r)
	s.tokens.SetRotation(r.Rotation)
	switch {
	case r.Limited && s.limit == nil:
		s.limit = s.faults.Add(model.Fault{Effect: model.EffectRateLimit, Limit: 5000, Window: 5 * time.Minute})
	case !r.Limited && s.limit != nil:
		s.limit.Remove()
		s.limit = nil
	}
}
