package schedule

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dispensary-go/dispensary/internal/jitter"
)

// Outcome is what came of one schedule.
type Outcome struct {
	Seed      uint64
	Violation error // nil where everything held
	Decisions []Decision
	Story     []string
	Replays   int // that shrinking took
}

// String tells the violation and how it came about.
func (o Outcome) String() string {
	return fmt.Sprintf("seed %d: %v\n%s", o.Seed, o.Violation, strings.Join(o.Story, "\n"))
}

// Once makes the schedule of a seed.
func Once(t *testing.T, seed uint64, scenario Scenario) Outcome {
	return once(t, seed, scenario, nil, false)
}

// Replay makes the schedule of the given decisions, in the world of the seed.
func Replay(t *testing.T, seed uint64, scenario Scenario, decisions []Decision) Outcome {
	return once(t, seed, scenario, decisions, true)
}

func once(t *testing.T, seed uint64, scenario Scenario, script []Decision, replay bool) (o Outcome) {
	jitter.FollowClock()
	defer func() {
		if v := recover(); v != nil {
			panic(fmt.Sprintf("schedule of seed %d: %v", seed, v))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		s := newScheduler(seed)
		s.script, s.replay = script, replay
		scenario(s)
		s.run()
		o = Outcome{Seed: seed, Violation: s.failed(), Decisions: s.decisions, Story: s.story}
		s.close()
	})
	return o
}

// Shrink looks for the fewest decisions that break something, too: it leaves out ever
// smaller parts (delta debugging). The steps between them are plain ones.
func Shrink(t *testing.T, found Outcome, scenario Scenario) Outcome {
	replays := 0
	try := func(decisions []Decision) bool {
		replays++
		smaller := Replay(t, found.Seed, scenario, decisions)
		if smaller.Violation == nil {
			return false
		}
		smaller.Decisions = decisions
		found = smaller
		return true
	}
	if !try(found.Decisions) { // it takes the dice
		found.Replays = replays
		return found
	}
	for size := (len(found.Decisions) + 1) / 2; size > 0; size /= 2 {
		for shrunk := true; shrunk; {
			shrunk = false
			for from := 0; from < len(found.Decisions); {
				to := min(from+size, len(found.Decisions))
				if try(append(append([]Decision(nil), found.Decisions[:from]...), found.Decisions[to:]...)) {
					shrunk = true
					continue // the next part stands here now
				}
				from += size
			}
			shrunk = shrunk && size == 1
		}
	}
	found.Replays = replays
	return found
}
