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
	firstSeed = flag.Uint64("first", 1, "seed of the first schedule of each test")
	schedules = flag.Int("schedules", 0, "number of schedules of each test (0: default of the test)")
)

// explore runs small schedules of a scenario on all cores, or full schedules in full size. It
// fails with the violation that has the lowest seed.
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
