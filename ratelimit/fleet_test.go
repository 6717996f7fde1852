package ratelimit_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/ratelimit"
)

const (
	fleetRequests = 300
	fleetPer      = 5 * time.Minute
	fleetTravel   = time.Second
)

// link is the way of one process to the store, which can be cut.
type link struct {
	mu    sync.Mutex
	store ratelimit.Store
	err   error
}

func (l *link) set(store ratelimit.Store, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store, l.err = store, err
}

func (l *link) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	l.mu.Lock()
	store, err := l.store, l.err
	l.mu.Unlock()
	if err != nil {
		return ratelimit.Board{}, err
	}
	return store.Exchange(ctx, name, process, record, keep)
}

// fleetFixture is some processes that share a limit, and what they send.
type fleetFixture struct {
	t       *testing.T
	store   ratelimit.Store
	links   []*link
	members []*ratelimit.Fleet

	mu   sync.Mutex
	sent []time.Time
	of   map[int]int
}

func newFleetFixture(t *testing.T, processes int) *fleetFixture {
	t.Helper()
	f := &fleetFixture{t: t, store: ratelimit.NewMemoryStore(), of: map[int]int{}}
	for range processes {
		f.join()
	}
	return f
}

// join adds a process.
func (f *fleetFixture) join() int {
	f.t.Helper()
	return f.joinAs(ratelimit.FleetConfig{Requests: fleetRequests, Processes: 4})
}

// joinAs adds a process with a limit of its own.
func (f *fleetFixture) joinAs(config ratelimit.FleetConfig) int {
	f.t.Helper()
	way := &link{store: f.store}
	config.Store, config.Per = way, fleetPer
	member, err := ratelimit.NewFleet(config)
	require.NoError(f.t, err)
	f.links, f.members = append(f.links, way), append(f.members, member)
	return len(f.members) - 1
}

// saturate has processes send as much as they may, at a priority, until the end of ctx.
func (f *fleetFixture) saturate(ctx context.Context, p api.Priority, processes ...int) {
	for _, i := range processes {
		for range 2 {
			go func() {
				for f.send(ctx, p, i) == nil {
				}
			}()
		}
	}
}

func (f *fleetFixture) send(ctx context.Context, p api.Priority, i int) error {
	err := f.members[i].Wait(api.ContextWithPriority(ctx, p))
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.sent = append(f.sent, time.Now())
		f.of[i]++
	}
	return err
}

// burst has people ask a process for more than the whole limit, for a minute.
func (f *fleetFixture) burst(ctx context.Context, i int) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	f.saturate(ctx, api.PriorityInteractive, i)
	<-ctx.Done()
}

// counted returns how many requests each process has sent since the last call.
func (f *fleetFixture) counted() map[int]int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.of
	f.of = map[int]int{}
	return of
}

// check looks at every period, in which requests may come closer by the travel.
func (f *fleetFixture) check(limit int) {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortFunc(f.sent, time.Time.Compare)
	for i := limit; i < len(f.sent); i++ {
		if f.sent[i].Sub(f.sent[i-limit]) < fleetPer+fleetTravel {
			assert.Fail(f.t, "more than the limit", "%d requests in the period from %s", limit+1, f.sent[i-limit])
			return
		}
	}
}

// fleetTest runs a test in fake time, for as long as given.
func fleetTest(t *testing.T, processes int, length time.Duration, test func(context.Context, *fleetFixture)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		f := newFleetFixture(t, processes)
		test(ctx, f)
		<-ctx.Done()
		f.check(fleetRequests)
		for _, member := range f.members {
			_ = member.Close(context.Background())
		}
	})
}

var errDown = errors.New("connection refused")

func TestFleetWithoutOneThatClosed(t *testing.T) {
	fleetTest(t, 2, 40*time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityReconcile, 0, 1)
		time.Sleep(2 * fleetPer)
		f.counted()
		require.NoError(f.t, f.members[1].Close(ctx))
		assert.ErrorIs(f.t, f.members[1].Wait(ctx), ratelimit.ErrClosed)
		f.burst(ctx, 0)
		time.Sleep(fleetPer + fleetPer/2)
		f.counted()
		time.Sleep(fleetPer)
		assert.Greater(f.t, f.counted()[0], fleetRequests*9/10, "the other one has all of it")
	})
}

// When one has been silent for two periods the others take over.
func TestFleetTakesOverFromOneThatDied(t *testing.T) {
	fleetTest(t, 2, 50*time.Minute, func(ctx context.Context, f *fleetFixture) {
		living, die := context.WithCancel(ctx)
		f.saturate(ctx, api.PriorityReconcile, 0)
		f.saturate(living, api.PriorityReconcile, 1)
		time.Sleep(2 * fleetPer)
		die()
		f.links[1].set(nil, errDown)
		time.Sleep(3*fleetPer + time.Minute)
		f.counted()
		time.Sleep(fleetPer)
		assert.Greater(f.t, f.counted()[0], fleetRequests*9/10)
	})
}

// With the store away each has its share, those too that had next to nothing.
func TestFleetWithoutItsStore(t *testing.T) {
	fleetTest(t, 3, 100*time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityRefresh, 0)
		f.saturate(ctx, api.PriorityCatalog, 1)
		time.Sleep(3 * fleetPer)
		f.counted()
		for _, way := range f.links {
			way.set(nil, errDown)
		}
		time.Sleep(3*fleetPer + fleetPer/2)
		f.counted()
		time.Sleep(2 * fleetPer)
		of := f.counted()
		for i := range 2 {
			assert.InDelta(f.t, 2*fleetRequests/4, of[i], fleetRequests/10, "process %d", i)
		}
		for _, way := range f.links {
			way.set(f.store, nil)
		}
		time.Sleep(4 * fleetPer)
		f.counted()
		time.Sleep(2 * fleetPer)
		of = f.counted()
		assert.Greater(f.t, of[0]+of[1], 2*fleetRequests*9/10, "all is used again")
	})
}

// The background of a process that has more than its share stops when the store is away, so
// that its people wait less when only the share is left.
func TestFleetMakesRoomForPeopleWithoutItsStore(t *testing.T) {
	fleetTest(t, 2, 40*time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityRefresh, 0)
		time.Sleep(3 * fleetPer)
		assert.Greater(f.t, f.counted()[0], 2*fleetRequests)
		for _, way := range f.links {
			way.set(nil, errDown)
		}
		var longest time.Duration
		for range 2 * fleetPer / (10 * time.Second) {
			began := time.Now()
			require.NoError(f.t, f.send(ctx, api.PriorityInteractive, 0))
			longest = max(longest, time.Since(began))
			time.Sleep(10 * time.Second)
		}
		assert.Less(f.t, longest, 3*time.Minute, "it would be more where the background goes on until then")
	})
}

// Processes that had next to nothing when the store went away have a share after a while. One
// that is back before them leaves it to them.
func TestFleetLeavesThoseTheirShareThatAreNotBack(t *testing.T) {
	fleetTest(t, 3, 40*time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityRefresh, 0)
		f.saturate(ctx, api.PriorityCatalog, 1, 2)
		time.Sleep(2 * fleetPer)
		for _, way := range f.links {
			way.set(nil, errDown)
		}
		time.Sleep(4 * fleetPer)
		f.links[0].set(f.store, nil)
		time.Sleep(fleetPer / 2)
		f.burst(ctx, 0)
	})
}

// The one that is back first does not know that the others hold no more than their shares by now,
// and is left less than it has sent. The others leave it that for as long as it counts.
func TestFleetCountsWhatWasSentOfAQuotaThatWasCut(t *testing.T) {
	fleetTest(t, 4, 60*time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityRefresh, 0)
		f.saturate(ctx, api.PriorityCatalog, 1, 2, 3)
		time.Sleep(3 * fleetPer)
		for _, way := range f.links {
			way.set(nil, errDown)
		}
		time.Sleep(4 * fleetPer)
		for _, i := range []int{1, 0, 2, 3} {
			f.links[i].set(f.store, nil)
			time.Sleep(fleetPer / 8)
		}
		f.burst(ctx, 0)
	})
}

// Each of many that start at once has no more than it has left word of.
func TestFleetOfManyThatStartAtOnce(t *testing.T) {
	fleetTest(t, 0, time.Minute, func(ctx context.Context, f *fleetFixture) {
		const requests, processes = 5000, 100
		var all []int
		for range processes {
			all = append(all, f.joinAs(ratelimit.FleetConfig{Requests: requests, Processes: processes}))
		}
		f.saturate(ctx, api.PriorityInteractive, all...)
		<-ctx.Done()
		synctest.Wait()
		f.check(requests)
		f.sent = nil // the limit of the other tests is lower
	})
}

// A process that has never reached the store has a small share where there may be many, and its
// background gets some of it.
func TestFleetOfManyWithoutItsStore(t *testing.T) {
	fleetTest(t, 0, 4*fleetPer, func(ctx context.Context, f *fleetFixture) {
		one := f.joinAs(ratelimit.FleetConfig{Requests: 5000, Processes: 100})
		f.links[one].set(nil, errDown)
		f.saturate(ctx, api.PriorityEvent, one)
		time.Sleep(2 * fleetPer)
		assert.NotZero(f.t, f.counted()[one])
	})
}

// A process that starts hours after all others have died, and none of them has left, has a share.
func TestFleetStartsAfterOthersHaveDied(t *testing.T) {
	fleetTest(t, 4, 3*time.Hour, func(ctx context.Context, f *fleetFixture) {
		living, die := context.WithCancel(ctx)
		f.saturate(living, api.PriorityReconcile, 0, 1, 2, 3)
		time.Sleep(2 * fleetPer)
		die()
		for _, way := range f.links {
			way.set(nil, errDown)
		}
		time.Sleep(2 * time.Hour)
		f.counted()
		one := f.join()
		f.saturate(ctx, api.PriorityInteractive, one)
		time.Sleep(fleetPer)
		assert.GreaterOrEqual(f.t, f.counted()[one], fleetRequests/5)
	})
}

// rewindStore is a store that can be killed, and comes back with old records.
type rewindStore struct {
	mu           sync.Mutex
	board, saved map[string]ratelimit.Record
	down         bool
}

func newRewindStore() *rewindStore { return &rewindStore{board: map[string]ratelimit.Record{}} }

func (s *rewindStore) Exchange(_ context.Context, _, process string, record []byte, _ time.Duration) (ratelimit.Board, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return ratelimit.Board{}, errDown
	}
	s.board[process] = ratelimit.Record{At: time.Now(), Data: record}
	return ratelimit.Board{Now: time.Now(), Records: maps.Clone(s.board)}, nil
}

func (s *rewindStore) save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = maps.Clone(s.board)
}

func (s *rewindStore) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
}

func (s *rewindStore) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.board = false, map[string]ratelimit.Record{}
	maps.Copy(s.board, s.saved)
}

// A store may come back with records of a time when another process held the limit.
func TestFleetWithAStoreThatComesBackWithOldRecords(t *testing.T) {
	fleetTest(t, 2, 40*time.Minute, func(ctx context.Context, f *fleetFixture) {
		store := newRewindStore()
		for _, way := range f.links {
			way.set(store, nil)
		}
		for i := range f.members { // so that none leaves
			go func() {
				for f.send(ctx, api.PriorityInteractive, i) == nil {
					select {
					case <-time.After(30 * time.Second):
					case <-ctx.Done():
					}
				}
			}()
		}
		busy, end := context.WithTimeout(ctx, 2*fleetPer)
		defer end()
		f.saturate(busy, api.PriorityReconcile, 1)
		time.Sleep(2*fleetPer - time.Second)
		store.save()
		time.Sleep(time.Second)
		f.saturate(ctx, api.PriorityReconcile, 0)
		time.Sleep(3 * fleetPer)
		f.counted()
		time.Sleep(fleetPer)
		assert.Greater(f.t, f.counted()[0], fleetRequests*8/10, "it holds the limit now")
		store.start()
		f.burst(ctx, 1)
	})
}

// A process that starts while the store is away has one share in Processes, at once.
func TestFleetThatStartsWithoutItsStore(t *testing.T) {
	fleetTest(t, 1, time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.links[0].set(nil, errDown)
		for range fleetRequests / 4 {
			require.NoError(f.t, f.send(ctx, api.PriorityInteractive, 0))
		}
		short, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		assert.ErrorIs(f.t, f.send(short, api.PriorityInteractive, 0), context.DeadlineExceeded)
	})
}

// One that has nothing to do leaves, and is back with its next request.
func TestFleetOfOneThatRests(t *testing.T) {
	fleetTest(t, 2, 2*time.Hour, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityReconcile, 0)
		for range 3 {
			for range 5 {
				began := time.Now()
				require.NoError(f.t, f.send(ctx, api.PriorityInteractive, 1))
				assert.Less(f.t, time.Since(began), time.Minute)
			}
			time.Sleep(20 * time.Minute)
		}
		f.counted()
		time.Sleep(fleetPer)
		assert.Greater(f.t, f.counted()[0], fleetRequests*9/10)
	})
}

// A pause of one process holds back all.
func TestFleetSharesAPause(t *testing.T) {
	fleetTest(t, 2, 30*time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.saturate(ctx, api.PriorityReconcile, 0, 1)
		time.Sleep(fleetPer)
		f.members[0].Pause(3 * time.Minute)
		time.Sleep(fleetPer / 4)
		assert.Equal(f.t, 3*time.Minute-fleetPer/4, f.members[0].Paused())
		assert.InDelta(f.t, 3*time.Minute-fleetPer/4, f.members[1].Paused(), float64(time.Second))
	})
}

// A store that panics is one that is away.
func TestFleetWithAStoreThatPanics(t *testing.T) {
	fleetTest(t, 1, time.Minute, func(ctx context.Context, f *fleetFixture) {
		f.links[0].set(nil, nil)
		assert.NoError(f.t, f.send(ctx, api.PriorityInteractive, 0))
	})
}

func TestFleetEndsWaitsWhenItIsClosed(t *testing.T) {
	fleetTest(t, 1, time.Minute, func(ctx context.Context, f *fleetFixture) {
		ended := make(chan error, 1)
		for range fleetRequests / 4 {
			require.NoError(f.t, f.send(ctx, api.PriorityInteractive, 0))
		}
		f.links[0].set(nil, errDown)
		go func() {
			for {
				if err := f.members[0].Wait(ctx); err != nil {
					ended <- err
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		assert.Error(f.t, f.members[0].Close(ctx))
		assert.ErrorIs(f.t, <-ended, ratelimit.ErrClosed)
	})
}

func TestNewFleetRefusesNonsense(t *testing.T) {
	t.Parallel()
	store := ratelimit.NewMemoryStore()
	for field, c := range map[string]ratelimit.FleetConfig{
		"Store":     {},
		"Requests":  {Store: store, Requests: -1},
		"Per":       {Store: store, Requests: 1},
		"Processes": {Store: store, Processes: -1},
	} {
		_, err := ratelimit.NewFleet(c)
		var refused *api.ArgumentError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "ratelimit.FleetConfig."+field, refused.Field)
	}
}

// leavingStore answers a process that leaves only after a second.
type leavingStore struct {
	ratelimit.Store
	leaves chan struct{}
}

func (s *leavingStore) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	if strings.Contains(string(record), `"left":true`) {
		s.leaves <- struct{}{}
		time.Sleep(time.Second)
	}
	return s.Store.Exchange(ctx, name, process, record, keep)
}

// A process that has nothing to do leaves. One that waits in that moment, and will not join any
// more, hears of the end.
func TestFleetCloseWhileItLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &leavingStore{ratelimit.NewMemoryStore(), make(chan struct{}, 2)}
		fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: store})
		require.NoError(t, err)
		require.NoError(t, fleet.Wait(t.Context()))
		<-store.leaves
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- fleet.Wait(ctx) }()
		synctest.Wait()
		require.NoError(t, fleet.Close(t.Context()))
		assert.ErrorIs(t, <-ended, ratelimit.ErrClosed)
	})
}
