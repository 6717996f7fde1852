package dispensarytest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/textfile"
)

// Behavior is one variant of a point that the API leaves open, as "point=variant":
// [ProbeBeforeEach] is "probe=before-each". See [BehaviorChoices] for all of them.
type Behavior string

// Choice is the name of the point: "probe".
func (b Behavior) Choice() string {
	point, _, _ := strings.Cut(string(b), "=")
	return point
}

// Variant is how the point is decided: "before-each".
func (b Behavior) Variant() string {
	_, variant, _ := strings.Cut(string(b), "=")
	return variant
}

// BehaviorChoice is a point that the API leaves open, with the variants an integration
// has to survive.
type BehaviorChoice struct {
	Name     string
	Section  string            // of the API
	Why      string            // what is left open, and where the default comes from
	Variants []BehaviorVariant // the first is the default

	// Operations are those whose answers a variant can change: "patients.create". It
	// is empty for what is about events and webhooks alone.
	Operations []string
}

// BehaviorVariant is one way to decide a [BehaviorChoice].
type BehaviorVariant struct {
	Behavior Behavior
	Meaning  string
}

// BehaviorChoices returns every point that can be decided in more than one way, sorted
// by name. [WithBehavior] and [Server.SetBehavior] choose. A loop over all variants runs a
// test under each of them.
func BehaviorChoices() []BehaviorChoice {
	var all []BehaviorChoice
	for _, c := range behavior.Choices() {
		choice := BehaviorChoice{Name: c.Name, Section: c.Section, Why: c.Why, Operations: slices.Clone(c.Operations)}
		for _, v := range c.Variants {
			choice.Variants = append(choice.Variants, BehaviorVariant{Behavior: Behavior(c.Name + "=" + v.Name), Meaning: v.Meaning})
		}
		all = append(all, choice)
	}
	return all
}

// WithBehavior sets how the platform behaves where the API leaves it open. One that is
// none of the constants of this package fails on construction.
func WithBehavior(behaviors ...Behavior) Option {
	return func(s *settings) error {
		for _, b := range behaviors {
			if err := b.apply(&s.behaviors); err != nil {
				return err
			}
		}
		return nil
	}
}

// WithBehaviorsFile lets the platform behave as a sandbox that "dispensary probe" has looked
// at, and wrote into the file that is named. Points that the file does not name keep
// their defaults, or what an option before has chosen; a later [WithBehavior] wins.
func WithBehaviorsFile(name string) Option {
	return func(s *settings) error {
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("dispensarytest: WithBehaviorsFile: %w", err)
		}
		if content, err = textfile.Decode(content); err != nil {
			return fmt.Errorf("dispensarytest: WithBehaviorsFile: %s: the file %w", name, err)
		}
		if err := s.behaviors.ChooseFile(content); err != nil {
			return fmt.Errorf("dispensarytest: WithBehaviorsFile: %s: %w", name, err)
		}
		return nil
	}
}

func (b Behavior) apply(to *behavior.Set) error {
	return to.Choose(b.Choice(), b.Variant())
}

// SetBehavior changes a behavior while the platform runs, from the next request or
// delivery on.
func (s *Server) SetBehavior(b Behavior) error {
	defer s.changes.Notify()
	s.store.Lock()
	defer s.store.Unlock()
	changed := *s.behaviors.Get()
	if err := b.apply(&changed); err != nil {
		return err
	}
	s.putBehaviors(changed)
	return nil
}

// Behaviors returns the behaviors that are in force, one for each [BehaviorChoice], in
// their order.
func (s *Server) Behaviors() []Behavior {
	var all []Behavior
	chosen := s.behaviors.Get().Chosen
	for _, point := range slices.Sorted(maps.Keys(chosen)) {
		all = append(all, Behavior(point+"="+chosen[point]))
	}
	return all
}

// putBehaviors puts behaviors in force.
func (s *Server) putBehaviors(b behavior.Set) {
	s.behaviors.Set(b)
	s.tokens.SetRotation(b.Rotation)
	switch {
	case b.Limited && s.limit == nil:
		s.limit = s.faults.Add(model.Fault{Effect: model.EffectRateLimit, Limit: 5000, Window: 5 * time.Minute})
	case !b.Limited && s.limit != nil:
		s.limit.Remove()
		s.limit = nil
	}
}
