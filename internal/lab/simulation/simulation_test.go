package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

var (
	firstSeed = flag.Uint64("first", 1, "seed of the first schedule of each family")
	schedules = flag.Int("schedules", 0, "how many schedules each family makes; 0 is the default of the family")
)

// explore makes small schedules of a scenario on all cores, or full in full size, and
// reports the first by seed that breaks something.
func explore(t *testing.T, scenario schedule.Scenario, small, full int) {
	t.Helper()
	n := testsize.Of(small, full)
	if *schedules > 0 {
		n = *schedules
	}
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
					o := schedule.Once(t, *firstSeed+i, scenario)
					mu.Lock()
					if o.Violation != nil && (found == nil || o.Seed < found.Seed) {
						found = &o
					}
					mu.Unlock()
				}
			})
		}
	})
	if found != nil {
		t.Fatalf("%s\nreplay: go test ./internal/lab/simulation -run '^%s$' -first %d -schedules 1", *found, t.Name(), found.Seed)
	}
}
