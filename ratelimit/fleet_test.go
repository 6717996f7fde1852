package ratelimit_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/ratelimit"
)

const (
	fleetRequests = 300
	fleetPer      = 5 * time.Minute
	travel        = 990 * time.Millisecond
	turns         = 40 // requests of a process per turn of a background priority
)

var errDown = errors.New("connection refused")

// faultyStore is a store with a response time and faults.
type faultyStore struct {
	slow  time.Duration // response time
	mu    sync.Mutex
	store ratelimit.Store
	fault func(context.Context) error // error of a call, nil for none
	calls int
}

func (s *faultyStore) set(fault func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *faultyStore) replace(store ratelimit.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = store
}

func (s *faultyStore) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *faultyStore) call(ctx context.Context) (ratelimit.Store, error) {
	s.mu.Lock()
	s.calls++
	store, fault := s.store, s.fault
	s.mu.Unlock()
	if fault != nil {
		return nil, fault(ctx)
	}
	return store, nil
}

func (s *faultyStore) Take(ctx context.Context, name string, past, want int, windows ...ratelimit.Window) (ratelimit.Taken, error) {
	store, err := s.call(ctx)
	if err != nil {
		return ratelimit.Taken{}, err
	}
	taken, err := store.Take(ctx, name, past, want, windows...)
	time.Sleep(s.slow)
	return taken, err
}

func (s *faultyStore) Pause(ctx context.Context, name string, d time.Duration) error {
	store, err := s.call(ctx)
	if err != nil {
		return err
	}
	return store.Pause(ctx, name, d)
}

func down(context.Context) error { return errDown }

// fleet is a group of processes with a shared limit, and the entrance of the platform.
type fleet struct {
	*testing.T
	config ratelimit.FleetConfig
	store  *faultyStore

	mu    sync.Mutex
	door  []time.Time // arrival times of the requests
	of    [apikit.Priorities]int
	waits []time.Duration // of interactive requests
}

// inFleet runs a test with fake time. Its processes end with the context.
func inFleet(t *testing.T, config ratelimit.FleetConfig, test func(context.Context, *fleet)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{T: t, store: &faultyStore{store: ratelimit.NewMemoryStore()}}
		config.Store = f.store
		config.Requests, config.Per = cmp.Or(config.Requests, fleetRequests), fleetPer
		config.Processes = cmp.Or(config.Processes, 4)
		f.config = config
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		test(ctx, f)
		cancel()
		time.Sleep(time.Second) // for the end of saturate
	})
}

// join returns the limiter of a new process.
func (f *fleet) join() *ratelimit.Fleet {
	f.Helper()
	member, err := ratelimit.NewFleet(f.config)
	require.NoError(f, err)
	return member
}

func (f *fleet) send(ctx context.Context, member *ratelimit.Fleet, p api.Priority) error {
	asked := time.Now()
	err := member.Wait(api.ContextWithPriority(ctx, p))
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.of[p]++
		f.door = append(f.door, time.Now().Add(time.Duration(rand.N(2))*travel))
		if p == api.PriorityInteractive {
			f.waits = append(f.waits, time.Since(asked))
		}
	}
	return err
}

// saturate sends requests without a pause until ctx ends.
func (f *fleet) saturate(ctx context.Context, p api.Priority, members ...*ratelimit.Fleet) {
	for _, member := range members {
		for range 2 {
			go func() {
				for f.send(ctx, member, p) == nil {
					time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
				}
			}()
		}
	}
}

// people sends an interactive request at each interval until ctx ends. It returns the number
// of sent requests.
func (f *fleet) people(ctx context.Context, every time.Duration, member *ratelimit.Fleet) (sent int) {
	var running sync.WaitGroup
	for {
		select {
		case <-time.After(every):
			sent++
			running.Go(func() { assert.NoError(f, f.send(context.WithoutCancel(ctx), member, api.PriorityInteractive)) })
		case <-ctx.Done():
			running.Wait()
			return sent
		}
	}
}

// counted returns the number of starts since its last call.
func (f *fleet) counted() (n int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.of {
		n += f.of[p]
		f.of[p] = 0
	}
	return n
}

// most returns the largest number of arrivals in one period after a time.
func (f *fleet) most(after time.Time) (most int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortFunc(f.door, time.Time.Compare)
	first := 0
	for i, at := range f.door {
		for f.door[first].Before(after) || at.Sub(f.door[first]) >= fleetPer {
			if first++; first > i {
				break
			}
		}
		most = max(most, i-first+1)
	}
	return most
}

// Processes end and start in several ways. No interactive request waits.
func TestFleetKeepsLimitDuringDeployments(t *testing.T) {
	t.Parallel()
	smaller := testsize.UnderRace(5, 1)
	replicas, limit := 20/smaller, 5000/smaller
	type deployment struct {
		replicas   int
		processes  int
		every      time.Duration // interval of interactive requests in a process
		background bool          // background requests use the rest of the limit
		ending     int           // number of processes that are replaced
		over       time.Duration // duration of the replacement, 0 for all at once
		gap        time.Duration // time without the process, negative if the new one starts first
	}
	for name, d := range map[string]deployment{
		"no deployment, background":                 {background: true},
		"one crashes, background":                   {ending: 1, gap: 30 * time.Second, background: true},
		"half crash, background":                    {ending: 10, gap: 30 * time.Second, background: true},
		"all crash, background":                     {ending: 20, gap: 30 * time.Second, background: true},
		"all crash, people only":                    {ending: 20, gap: 30 * time.Second},
		"all crash, one request a minute":           {ending: 20, gap: 30 * time.Second, every: time.Minute},
		"rolling, background":                       {ending: 20, over: fleetPer, gap: time.Second, background: true},
		"rolling, people only":                      {ending: 20, over: fleetPer, gap: time.Second},
		"surge, background":                         {ending: 20, over: fleetPer, gap: -10 * time.Second, background: true},
		"surge, people only":                        {ending: 20, over: fleetPer, gap: -10 * time.Second},
		"three of ten, all crash, background":       {replicas: 3, processes: 10, ending: 3, gap: 30 * time.Second, background: true},
		"three of ten, rolling, background":         {replicas: 3, processes: 10, ending: 3, over: fleetPer, gap: time.Second, background: true},
		"three of ten, all crash, people only":      {replicas: 3, processes: 10, ending: 3, gap: 30 * time.Second},
		"new release, background from the start on": {ending: 20, over: time.Minute, gap: time.Second, background: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := cmp.Or(d.replicas, replicas)
			config := ratelimit.FleetConfig{Requests: limit, Processes: cmp.Or(d.processes, replicas)}
			inFleet(t, config, func(ctx context.Context, f *fleet) {
				var wanted, running = make(chan int, 1000), sync.WaitGroup{}
				start := func() (end func()) {
					member := f.join()
					living, end := context.WithCancel(ctx)
					running.Go(func() { wanted <- f.people(living, cmp.Or(d.every, 5*time.Second), member) })
					if d.background {
						f.saturate(living, api.PriorityCatalog, member)
					}
					return end
				}
				var ends []func()
				for range n {
					ends = append(ends, start())
				}
				time.Sleep(2 * fleetPer)
				began := time.Now()
				ending := min(d.ending, n)
				for i, end := range ends[:ending] {
					at := d.over * time.Duration(i) / time.Duration(ending)
					time.AfterFunc(at+max(0, -d.gap), end)
					time.AfterFunc(at+max(0, d.gap), func() {
						f.mu.Lock()
						defer f.mu.Unlock()
						ends = append(ends, start())
					})
				}
				time.Sleep(d.over + 2*fleetPer)
				elapsed := time.Since(began) + 2*fleetPer
				f.mu.Lock()
				all := ends
				f.mu.Unlock()
				for _, end := range all {
					end()
				}
				running.Wait()
				sum := 0
				for len(wanted) > 0 {
					sum += <-wanted
				}
				assert.Len(t, f.waits, sum, "every interactive request starts")
				assert.Less(t, slices.Max(f.waits), time.Second)
				assert.LessOrEqual(t, f.most(time.Time{}), limit)
				calls := float64(f.store.called()) / elapsed.Seconds()
				assert.Less(t, calls, 40.0, "calls of the store per second")
				if d.background {
					periods := float64(elapsed) / float64(fleetPer)
					assert.Greater(t, float64(len(f.door)), 0.8*float64(limit)*periods)
				}
				t.Logf("%d interactive requests, longest wait %s, %d requests, at most %d per period, %.1f calls/s", sum, slices.Max(f.waits), len(f.door), f.most(time.Time{}), calls)
			})
		})
	}
}

// 2,000 background requests wait. A request fails at once if it cannot start before its
// deadline.
func TestFleetFailsHopelessWaitsAtOnce(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{"with the store": nil, "without it": down} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, ratelimit.FleetConfig{Requests: 5000}, func(ctx context.Context, f *fleet) {
				f.store.set(fault)
				member := f.join()
				for range 2000 {
					go func() { _ = f.send(ctx, member, api.PriorityCatalog) }()
				}
				time.Sleep(time.Second)
				short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				began := time.Now()
				require.ErrorIs(f, f.send(short, member, api.PriorityCatalog), ratelimit.ErrDeadline)
				assert.Zero(f, time.Since(began))
				require.NoError(f, f.send(short, member, api.PriorityInteractive), "interactive requests do not wait")
			})
		})
	}
}

// A request may start up to a timeout after its record, and arrive 1 second later.
func TestFleetAllowsForSlowStore(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{Processes: 1}, func(ctx context.Context, f *fleet) {
		member := f.join()
		f.store.slow = time.Second - time.Millisecond
		require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		started := time.Now()
		f.store.slow = 0
		for range fleetRequests {
			require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		}
		assert.GreaterOrEqual(f, time.Since(started), fleetPer+time.Second)
	})
}

// 1,000 canceled waits cause no call of the store.
func TestCanceledWaitsCallNoStore(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		member := f.join()
		f.saturate(ctx, api.PriorityCatalog, member)
		time.Sleep(time.Second)
		before := f.store.called()
		for range 1000 {
			leaving, leave := context.WithCancel(ctx)
			go func() { _ = f.send(leaving, member, api.PriorityCatalog) }()
			synctest.Wait()
			leave()
			synctest.Wait()
		}
		assert.Equal(f, before, f.store.called())
	})
}

// Another process has used the whole limit. The store's first response shows this.
func TestFleetRejectsLateDeadlines(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		for range fleetRequests {
			require.NoError(f, f.send(ctx, f.join(), api.PriorityInteractive))
		}
		member := f.join()
		short, cancel := context.WithTimeout(ctx, fleetPer)
		defer cancel()
		began := time.Now()
		require.ErrorIs(f, f.send(short, member, api.PriorityInteractive), ratelimit.ErrDeadline)
		calls := f.store.called()
		require.ErrorIs(f, f.send(short, member, api.PriorityInteractive), ratelimit.ErrDeadline)
		assert.Equal(f, calls, f.store.called(), "the second wait calls no store")
		assert.Zero(f, time.Since(began))
		require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		assert.Greater(f, time.Since(began), fleetPer)
	})
}

// Interactive requests need more than the limit, in the same process or in others. Each
// background priority still has its turns.
func TestFleetStarvesNoPriority(t *testing.T) {
	for name, others := range map[string]int{"one process": 0, "other processes": 3} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
				member := f.join()
				f.saturate(ctx, api.PriorityInteractive, member)
				for range others {
					f.saturate(ctx, api.PriorityInteractive, f.join())
				}
				for p := api.PriorityRefresh; p <= api.PriorityCatalog; p++ {
					f.saturate(ctx, p, member)
				}
				time.Sleep(fleetPer)
				f.counted()
				time.Sleep(5 * fleetPer)
				synctest.Wait()
				t.Log(f.of)
				for p := api.PriorityRefresh; p <= api.PriorityCatalog; p++ {
					assert.GreaterOrEqual(f, f.of[p], 5*fleetRequests/4/turns/2, "too few starts in one of four processes")
					assert.LessOrEqual(f, f.of[p], 5*fleetRequests/turns)
				}
				assert.LessOrEqual(f, f.most(time.Time{}), fleetRequests)
				assert.Greater(f, f.counted(), 5*fleetRequests*9/10)
			})
		})
	}
}

// Background requests of all processes leave room for interactive requests, and start in the
// order of their priorities.
func TestFleetOrdersPriorities(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{Requests: 5000}, func(ctx context.Context, f *fleet) {
		for p := api.PriorityRefresh; p <= api.PriorityCatalog; p++ {
			f.saturate(ctx, p, f.join())
		}
		time.Sleep(fleetPer)
		f.counted()
		time.Sleep(2 * fleetPer)
		synctest.Wait()
		t.Log(f.of)
		assert.Greater(f, f.of[api.PriorityRefresh], f.of[api.PriorityEvent])
		assert.Greater(f, f.of[api.PriorityEvent], f.of[api.PriorityCatalog])
		assert.Greater(f, f.of[api.PriorityCatalog], 2*5000/4/turns*8/10)
		member := f.join()
		for range 5000 / 50 { // 2 percent of the limit at once
			require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		}
		assert.Zero(f, f.waits[len(f.waits)-1])
	})
}

// A canceled wait ends at once, and the queue continues.
func TestCanceledFleetWaitEndsAtOnce(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		member := f.join()
		for range fleetRequests {
			require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		}
		leaving, leave := context.WithCancel(ctx)
		time.AfterFunc(time.Second, leave)
		began := time.Now()
		assert.ErrorIs(f, f.send(leaving, member, api.PriorityInteractive), context.Canceled)
		assert.Equal(f, time.Second, time.Since(began))
		assert.ErrorIs(f, f.send(leaving, member, api.PriorityInteractive), context.Canceled)
		assert.NoError(f, f.send(ctx, member, api.PriorityInteractive))
	})
}

// An interactive request does not wait for the end of a background request's wait.
func TestInteractiveRequestOvertakesBackground(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		member := f.join()
		f.saturate(ctx, api.PriorityCatalog, member)
		time.Sleep(time.Second)
		began := time.Now()
		require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		assert.Zero(f, time.Since(began))
	})
}

func TestFleetSharesPause(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		one, other := f.join(), f.join()
		one.Pause(3 * time.Minute)
		one.Pause(time.Minute)
		synctest.Wait()
		assert.Equal(f, 1, f.store.called(), "a shorter pause is not shared")
		time.Sleep(time.Minute)
		assert.Zero(f, other.Paused(), "the other process has not called the store")
		require.NoError(f, f.send(ctx, other, api.PriorityInteractive))
		assert.Equal(f, 2*time.Minute, one.Paused())
		assert.Equal(f, 2*time.Minute, other.Paused())
		time.Sleep(2 * time.Minute)
		require.NoError(f, f.send(ctx, other, api.PriorityInteractive))
		assert.Zero(f, other.Paused())
	})
}

func TestNewFleetRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	store := ratelimit.NewMemoryStore()
	for field, c := range map[string]ratelimit.FleetConfig{
		"Store":     {},
		"Requests":  {Store: store, Requests: -1},
		"Per":       {Store: store, Requests: 1},
		"Processes": {Store: store, Processes: -1},
		"Timeout":   {Store: store, Timeout: -1},
	} {
		_, err := ratelimit.NewFleet(c)
		var rejected *api.ArgumentError
		require.ErrorAs(t, err, &rejected)
		assert.Equal(t, "ratelimit.FleetConfig."+field, rejected.Field)
	}
}
