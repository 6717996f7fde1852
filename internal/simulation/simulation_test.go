package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/internal/schedule"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

var (
	firstSeed = flag.Uint64("first", 1, "seed of the first schedule of each family")
	schedules = flag.Int("schedules", 0, "how many schedules each family makes; 0 is the default of the family")
	story     = flag.Bool("story", false, "tell the first schedule, whatever comes of it")
)

// explore makes small schedules of a scenario, or full in full size, and tells the first
// that breaks something.
func explore(t *testing.T, scenario schedule.Scenario, small, full int) {
	t.Helper()
	n := testsize.Of(small, full)
	if *schedules > 0 {
		n = *schedules
	}
	began := time.Now()
	if *story {
		t.Log(schedule.Once(t, *firstSeed, scenario))
	}
	found := search(t, scenario, *firstSeed, n, schedule.Once)
	t.Logf("%d schedules from seed %d in %s", n, *firstSeed, time.Since(began).Round(time.Millisecond))
	if found == nil {
		return
	}
	t.Fatalf("%s\nreplay: go test ./internal/simulation -run '^%s$' -first %d -schedules 1", *found, t.Name(), found.Seed)
}

// search makes schedules on all cores, and returns the first by seed that breaks something.
func search(t *testing.T, scenario schedule.Scenario, first uint64, n int, once func(*testing.T, uint64, schedule.Scenario) schedule.Outcome) *schedule.Outcome {
	t.Helper()
	var next atomic.Uint64
	var mu sync.Mutex
	var found *schedule.Outcome
	t.Run("schedules", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for {
					i := next.Add(1) - 1
					mu.Lock()
					done := found != nil || i >= uint64(n)
					mu.Unlock()
					if done {
						return
					}
					o := once(t, first+i, scenario)
					mu.Lock()
					if o.Violation != nil && (found == nil || o.Seed < found.Seed) {
						found = &o
					}
					mu.Unlock()
				}
			})
		}
	})
	return found
}

// families are all scenarios.
var families = map[string]schedule.Scenario{"tokens": newTokenWorld, "events": newEventWorld, "writes": newWriteWorld, "catalog": newCatalogWorld, "whole": newWholeWorld}

// TestSchedulesAreTheSameEachTime holds that a seed makes one schedule.
func TestSchedulesAreTheSameEachTime(t *testing.T) {
	for name, scenario := range families {
		t.Run(name, func(t *testing.T) {
			n := testsize.Of(60, 5000)
			if *schedules > 0 {
				n = *schedules
			}
			different := search(t, scenario, *firstSeed, n, func(t *testing.T, seed uint64, scenario schedule.Scenario) schedule.Outcome {
				first, again := schedule.Once(t, seed, scenario), schedule.Once(t, seed, scenario)
				for i, line := range first.Story {
					if i >= len(again.Story) || again.Story[i] != line {
						first.Violation = fmt.Errorf("line %d is %q", i, append(again.Story, "")[min(i, len(again.Story))])
						first.Story = first.Story[max(0, i-30) : i+1]
						return first
					}
				}
				first.Violation = nil
				return first
			})
			if different != nil {
				t.Fatal(*different)
			}
		})
	}
}
