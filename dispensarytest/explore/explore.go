// Package explore tests an integrator's own code against the order in which things happen
// and go wrong: it runs several replicas of it and the platform in one process, makes every
// call between them wait, and decides by a seed which goes on, which is lost or doubled on
// the way, when an answer is late, when a replica is killed and started again, and when time
// passes. Each seed makes one schedule, and makes it again.
//
//	func TestOrdersArrive(t *testing.T) {
//		explore.Run(t, explore.Options{}, func(w *explore.World) {
//			db := newDatabase() // in memory; it outlives the replicas
//			w.Replica("ehr-1", func(r *explore.Replica) { r.Receive(newReceiver(r, db)) })
//			w.Replica("ehr-2", func(r *explore.Replica) { r.Receive(newReceiver(r, db)) })
//			w.Do("a patient orders", 3, func() { db.expect(w.Platform().Orders.Place(…)) })
//			w.Until("every order is in the database", db.complete)
//		})
//	}
//
// A schedule is a few dozen decisions, followed by a recovery: nothing fails any more, what
// was killed is started again, and what [World.Until] waits for has to come about. One that
// breaks something is shrunk to the fewest decisions and told as a story, with its seed:
// go test -run TestOrdersArrive -explore.seed 17 -explore.schedules 1 makes it again.
//
// # What the code under test has to do
//
// Everything runs in a bubble of testing/synctest: time is the bubble's, and nothing may
// block on anything outside of it, as sockets and database servers are. The code calls the
// platform with [Replica.Client], is called at the handler given to [Replica.Receive], and
// reaches what its replicas share, a database or a queue, through [Call]: those three are
// where it is interrupted. It must not call any of them while it holds a sync.Mutex that
// another of its goroutines waits for.
//
// A replica that is killed ends where it stands: the goroutines that make a call end with
// runtime.Goexit, and what is in its memory is lost with it.
package explore

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/schedule"
)

// DefaultSchedules is how many schedules a test makes: a second or two.
const DefaultSchedules = 500

var (
	seedFlag      = flag.Uint64("explore.seed", 0, "seed of the first schedule of explore.Run; 0 is that of its Options")
	schedulesFlag = flag.Int("explore.schedules", 0, "how many schedules explore.Run makes; 0 is what its Options say")
)

// Options say which schedules [Run] makes. The flags -explore.seed and -explore.schedules go
// before them.
type Options struct {
	// Seed is that of the first schedule, the next ones follow; 0 means 1.
	Seed uint64

	// Schedules is how many are made; 0 means [DefaultSchedules].
	Schedules int

	// Platform are options of the platforms, of which each schedule has its own, in memory.
	Platform []dispensarytest.Option
}

func (o Options) withFlags() Options {
	o.Seed = max(cmp.Or(*seedFlag, o.Seed), 1)
	o.Schedules = cmp.Or(*schedulesFlag, o.Schedules, DefaultSchedules)
	return o
}

// Run makes schedules of the world that build makes, on all cores, and fails the test with
// the first that breaks something. build is called once for each, in its bubble.
func Run(t *testing.T, o Options, build func(w *World)) {
	t.Helper()
	o = o.withFlags()
	found := search(t, o, build)
	if found == nil {
		return
	}
	short := schedule.Shrink(t, *found, scenario(t, o, build))
	t.Fatalf("%s\nagain: go test -run '^%s$' -explore.seed %d -explore.schedules 1", short, t.Name(), found.Seed)
}

// search returns the first schedule by seed that breaks something.
func search(t *testing.T, o Options, build func(w *World)) (found *schedule.Outcome) {
	t.Helper()
	var next atomic.Int64
	var mu sync.Mutex
	t.Run("schedules", func(t *testing.T) {
		for worker := range min(runtime.GOMAXPROCS(0), o.Schedules) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < int64(o.Schedules); i = next.Add(1) - 1 {
					outcome := schedule.Once(t, o.Seed+uint64(i), scenario(t, o, build))
					if outcome.Violation == nil {
						continue
					}
					mu.Lock()
					defer mu.Unlock()
					if found == nil || outcome.Seed < found.Seed {
						found = &outcome
					}
					return
				}
			})
		}
	})
	return found
}

func scenario(t *testing.T, o Options, build func(w *World)) schedule.Scenario {
	return func(s *schedule.Scheduler) {
		w := &World{s: s, name: map[string]string{}}
		s.Process("platform", 0, 0, func(p *schedule.Process) { w.sender = p })
		options := []dispensarytest.Option{dispensarytest.WithInMemory(), dispensarytest.WithDeliveryClient(&http.Client{Transport: webhooks{w}})}
		platform, err := dispensarytest.Start(append(options, o.Platform...)...)
		if err != nil {
			t.Errorf("explore: %v", err)
			runtime.Goexit()
		}
		w.platform = platform
		s.Cleanup(func() { _ = platform.Close() })
		build(w)
	}
}

// shorten shortens the ids in what a story tells: each is numbered as it is first met.
func (w *World) shorten(text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return idPattern.ReplaceAllStringFunc(text, func(id string) string {
		if w.name[id] == "" {
			w.name[id] = fmt.Sprintf("<id %d>", len(w.name)+1)
		}
		return w.name[id]
	})
}

// tell names a request in a story.
func (w *World) tell(r *http.Request, _ []byte) string {
	return w.shorten(r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api"))
}
