package simulation

import (
	"flag"
	"fmt"
	"os"
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
				watch := watchdog()
				defer watch.stop()
				for {
					i := next.Add(1) - 1
					mu.Lock()
					done := found != nil || i >= uint64(n)
					mu.Unlock()
					if done {
						return
					}
					watch.begin(first + i)
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

// watch ends a test whose schedule hangs outside the bubble's time, and names its seed.
type watch struct {
	seed  atomic.Uint64
	since atomic.Int64
	end   chan struct{}
}

func watchdog() *watch {
	w := &watch{end: make(chan struct{})}
	w.begin(0)
	go func() {
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-w.end:
				return
			case <-ticker.C:
			}
			if age := time.Since(time.Unix(0, w.since.Load())); age > time.Minute {
				all := make([]byte, 1<<20)
				fmt.Fprintf(os.Stderr, "the schedule of seed %d hangs\n%s\n", w.seed.Load(), all[:runtime.Stack(all, true)])
				os.Exit(2)
			}
		}
	}()
	return w
}

func (w *watch) begin(seed uint64) { w.seed.Store(seed); w.since.Store(time.Now().UnixNano()) }
func (w *watch) stop()             { close(w.end) }

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
