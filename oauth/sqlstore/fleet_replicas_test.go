package sqlstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

// size is how big a fleet is on a database, and how its processes die. A call of
// the store has a third of the lease, which a thousand goroutines on a small
// machine need: where leases are short there are fewer processes.
type size struct {
	processes, goroutines, users int

	leaseTTL time.Duration
	kills    []moment // empty is one of the three, by chance
}

var sizes = map[sqlstore.Dialect]size{
	sqlstore.PostgreSQL: {4, 250, 1000, 9 * time.Second, []moment{beforeTheAnswer, ""}},
	sqlstore.MySQL:      {4, 250, 1000, 20 * time.Second, []moment{""}},
	sqlstore.SQLite:     {2, 100, 1000, 6 * time.Second, []moment{beforeTheRefresh, beforeTheAnswer, afterTheAnswer}},
}

// init makes fleets smaller and more patient where the race detector slows
// everything down, the platform included.
func init() {
	if !underRace {
		return
	}
	for dialect, s := range sizes {
		s.goroutines, s.users = 50, 200
		s.leaseTTL, s.kills = max(s.leaseTTL, 12*time.Second), s.kills[:1]
		sizes[dialect] = s
	}
}

// visits is how often each process asks for each user's token.
const visits = 2

// Processes that all find all tokens expired, on a platform that forgets a
// refresh token the moment it is used: one refresh for each user, no more.
func TestReplicasRefreshEachUserOnce(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	for dialect, size := range sizes {
		t.Run(string(dialect), func(t *testing.T) {
			f := newFleet(t, newDatabase(t, dialect), dispensarytest.RotationImmediate, size.users, oauth.DefaultLeaseTTL)
			f.expire()
			began := time.Now()
			slowest := f.run(size, visits)
			all, refused := f.refreshes()
			t.Logf("%d processes, %d users: %d refreshes, %d refused, slowest token %v, %v in all",
				size.processes, size.users, all, refused, slowest.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
			assert.Equal(t, size.users, all)
			assert.Zero(t, refused)
			f.requireConnected(f.store.(oauth.Lister))
		})
	}
}

// run lets all processes work at once and returns the longest wait for a token.
func (f *fleet) run(size size, visits int) time.Duration {
	f.Helper()
	var processes []*process
	for i := range size.processes {
		processes = append(processes, f.start(fmt.Sprintf("replica-%d", i), size.goroutines, visits))
	}
	for _, p := range processes {
		f.begin(p)
	}
	var slowest time.Duration
	for _, p := range processes {
		slowest = max(slowest, f.end(p).Slowest)
	}
	return slowest
}

// The same with one process killed in the middle of a refresh: nobody is logged
// out, and no user waits for longer than the lease.
func TestReplicasSurviveAKill(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	for dialect, size := range sizes {
		t.Run(string(dialect), func(t *testing.T) {
			f := newFleet(t, newDatabase(t, dialect), dispensarytest.RotationGrace, size.users, size.leaseTTL)
			for _, when := range size.kills {
				if when == "" {
					when = []moment{beforeTheRefresh, beforeTheAnswer, afterTheAnswer}[rand.IntN(3)]
				}
				before, _ := f.refreshes()
				f.expire()
				nth, slowest := f.runAndKill(size, when)
				all, refused := f.refreshes()
				t.Logf("killed %s, at its refresh %d: %d refreshes, slowest token %v", when, nth, all-before, slowest.Round(time.Millisecond))
				assert.Zero(t, refused)
				assert.GreaterOrEqual(t, all-before, size.users)
				f.requireConnected(f.store.(oauth.Lister))
				assert.Less(t, slowest, f.leaseTTL+pollGrain, "a user waited longer than the lease")
			}
		})
	}
}

// pollGrain is how much later than its end a lease's end is noticed by those who
// wait: they look every second, at most, and then still have to refresh, all of
// them at once, on a machine that may have other things to do.
const pollGrain = 15 * time.Second

// runAndKill kills one process at a moment of its nth refresh.
func (f *fleet) runAndKill(size size, when moment) (nth int, slowest time.Duration) {
	f.Helper()
	var processes []*process
	for i := range size.processes {
		processes = append(processes, f.start(fmt.Sprintf("replica-%d", i), size.goroutines, 1))
	}
	victim := processes[0]
	nth = 1 + rand.N(size.users/size.processes/4)
	var seen atomic.Int64
	var kill sync.Once
	f.setHook(func(name string, now moment) {
		if name == victim.name && now == when && seen.Add(1) >= int64(nth) {
			kill.Do(func() { assert.NoError(f, victim.command.Process.Kill()) })
		}
	})
	for _, p := range processes {
		f.begin(p)
	}
	for _, p := range processes[1:] {
		slowest = max(slowest, f.end(p).Slowest)
	}
	require.Error(f, victim.command.Wait(), "the victim was to be killed")
	f.setHook(nil)
	return nth, slowest
}
