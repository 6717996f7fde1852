package schedule

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dispensary-go/dispensary/internal/jitter"
)

// Outcome is the result of one schedule. Story lists its steps.
type Outcome struct {
	Seed      uint64
	Violation error // nil if all invariants held
	Story     []string
}

// String returns the violation and the steps that led to it.
func (o Outcome) String() string {
	return fmt.Sprintf("seed %d: %v\n%s", o.Seed, o.Violation, strings.Join(o.Story, "\n"))
}

// Once runs the schedule of a seed.
func Once(t *testing.T, seed uint64, scenario Scenario) (o Outcome) {
	jitter.FollowClock()
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("schedule of seed %d: %v", seed, v))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		s := newScheduler(seed)
		scenario(s)
		s.run()
		o = Outcome{Seed: seed, Violation: s.failed(), Story: s.story}
		s.close()
	})
	return o
}
