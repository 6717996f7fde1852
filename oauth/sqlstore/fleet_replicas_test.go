package sqlstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// size is how big a fleet is, and how its processes die.
type size struct {
	processes, goroutines, users int

	kills []moment
}

// sizeOn returns the size on a database. A file has one writer at a time.
func sizeOn(dialect sqlstore.Dialect) size {
	all := []moment{beforeTheRefresh, beforeTheAnswer, afterTheAnswer}
	s := testsize.Of(size{3, 20, 60, []moment{all[rand.IntN(len(all))]}}, size{4, 250, 1000, all})
	if dialect == sqlstore.SQLite {
		s.processes, s.goroutines = 2, min(s.goroutines, 100)
	}
	return s
}

// eachFleet plays a test on all databases, one after the other: each takes the
// whole machine.
func eachFleet(t *testing.T, play func(t *testing.T, d database, s size)) {
	t.Helper()
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(string(dialect), func(t *testing.T) { play(t, newDatabase(t, dialect), sizeOn(dialect)) })
	}
}

// visits is how often each process asks for each user's token.
const visits = 2

// Processes that all find all tokens expired, on a platform that forgets a
// refresh token the moment it is used: one refresh for each user, no more.
func TestReplicasRefreshEachUserOnce(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	eachFleet(t, func(t *testing.T, d database, size size) {
		f := newFleet(t, d, dispensarytest.RefreshRotationImmediate, size.users)
		f.expire()
		began := time.Now()
		slowest := f.run(size, visits)
		all, refused := f.refreshes()
		t.Logf("%d processes, %d users: %d refreshes, %d refused, slowest call %v, %v in all",
			size.processes, size.users, all, refused, slowest.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		assert.Equal(t, size.users, all)
		assert.Zero(t, refused)
		f.requireConnected(f.store.(tokens.Lister))
	})
}

// run lets all processes work at once and returns the longest wait for a call.
func (f *fleet) run(size size, visits int) time.Duration {
	f.Helper()
	var processes []*process
	for i := range size.processes {
		processes = append(processes, f.start(replicaName(i), connections, tokens.DefaultLeaseTTL))
	}
	for _, p := range processes {
		p.begin(task{Do: "visit", Goroutines: size.goroutines, Visits: visits})
	}
	return f.endAll(processes)
}

// connections is how many each process has to the database.
const connections = 8

func replicaName(n int) string { return fmt.Sprintf("replica-%d", n) }

func (f *fleet) endAll(processes []*process) (slowest time.Duration) {
	f.Helper()
	for _, p := range processes {
		r := p.report()
		assert.Empty(f, r.Failures, p.name)
		assert.Positive(f, r.Calls)
		slowest = max(slowest, r.Slowest)
		p.end()
	}
	return slowest
}

// The same with one process killed in the middle of a refresh: no user is logged
// out, and every other process gets every user's token.
func TestReplicasSurviveAKill(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	eachFleet(t, func(t *testing.T, d database, size size) {
		f := newFleet(t, d, dispensarytest.RefreshRotationGrace, size.users)
		for _, when := range size.kills {
			before, _ := f.refreshes()
			f.expire()
			nth, slowest := f.runAndKill(size, when)
			all, refused := f.refreshes()
			t.Logf("killed %s, at its refresh %d: %d refreshes, slowest call %v", when, nth, all-before, slowest.Round(time.Millisecond))
			assert.Zero(t, refused)
			assert.GreaterOrEqual(t, all-before, size.users)
			f.requireConnected(f.store.(tokens.Lister))
		}
	})
}

// victimLease is how long the leases of the process last that is killed: the others
// wait for their end, in real time. Theirs last as long as leases do.
const victimLease = 2 * time.Second

// runAndKill kills one process at a moment of its nth refresh. The others begin when
// it has begun to refresh.
func (f *fleet) runAndKill(size size, when moment) (nth int, slowest time.Duration) {
	f.Helper()
	victim := f.start(replicaName(0), connections, victimLease)
	var others []*process
	for i := range size.processes - 1 {
		others = append(others, f.start(replicaName(i+1), connections, tokens.DefaultLeaseTTL))
	}
	nth = 1 + rand.N(size.goroutines/2)
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	kill := sync.OnceFunc(func() { assert.NoError(f, victim.command.Process.Kill()) })
	var mu sync.Mutex
	seen := 0
	f.setHook(func(name string, now moment) {
		if name != victim.name {
			return
		}
		begin()
		mu.Lock()
		defer mu.Unlock()
		if now == when {
			seen++
		}
		if seen >= nth {
			kill()
		}
	})
	visits := task{Do: "visit", Goroutines: size.goroutines, Visits: 1}
	victim.begin(visits)
	<-begun
	for _, p := range others {
		p.begin(visits)
	}
	slowest = f.endAll(others)
	f.setHook(nil)
	kill()
	_ = victim.command.Wait()
	return nth, slowest
}
