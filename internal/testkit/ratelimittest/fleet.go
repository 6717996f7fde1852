package ratelimittest

import (
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
	"github.com/dispensary-go/dispensary/ratelimit"
)

const (
	processes = 8
	requests  = 5000
	per       = 5 * time.Minute
	duration  = 40 * time.Minute
)

// testFleet runs eight processes for forty minutes of fake time. Three priorities have more to
// do than the limit has room for. The test takes many periods, because a process may once have
// more people than it and the pool have room for.
func testFleet(t *testing.T, store ratelimit.Store) {
	outside := runOutside(t, store)
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, outside)
		f.run(duration)
		f.checkLimit()
		waits := f.waits[api.PriorityInteractive]
		slices.Sort(waits)
		assert.Less(t, waits[len(waits)*99/100], 50*time.Millisecond, "p99 of the waits of people")
		assert.GreaterOrEqual(t, float64(len(f.door)), 0.95*requests*float64(duration/per), "of the budget is used")
		assert.LessOrEqual(t, float64(f.store.exchanges), float64(len(f.door))/50, "exchanges with the store")
		for p, last := range f.last {
			gap := max(f.gap[p], duration-last)
			assert.Less(t, gap, per, "%s is not starved", api.Priority(p))
		}
	})
}

// fleet is eight processes, and the door of the platform.
type fleet struct {
	t       *testing.T
	store   *faultyStore
	members []*ratelimit.Fleet
	began   time.Time

	mu    sync.Mutex
	door  []time.Duration // when each request arrived
	waits [api.Priorities][]time.Duration
	last  [api.Priorities]time.Duration // when the last request started
	gap   [api.Priorities]time.Duration // the longest time between two
}

func newFleet(t *testing.T, store ratelimit.Store) *fleet {
	f := &fleet{t: t, store: &faultyStore{Store: store}, began: time.Now()}
	for range processes {
		member, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: f.store, Name: t.Name(), Processes: processes})
		require.NoError(t, err)
		f.members = append(f.members, member)
	}
	return f
}

// run keeps all processes busy. The catalog is read by one of them, and lists by two.
func (f *fleet) run(duration time.Duration) {
	ctx, cancel := context.WithTimeout(f.t.Context(), duration)
	defer cancel()
	var running sync.WaitGroup
	for i, member := range f.members {
		work := func(p api.Priority, workers int) {
			for range workers {
				running.Go(func() { f.work(ctx, member, p) })
			}
		}
		running.Go(func() { f.people(ctx, &running, member) })
		work(api.PriorityEvent, 2)
		switch i {
		case 0:
			work(api.PriorityCatalog, 8)
		case 1, 2:
			work(api.PriorityReconcile, 4)
		default:
			work(api.PriorityRefresh, 4)
		}
	}
	running.Wait()
	for _, member := range f.members {
		_ = member.Close(context.Background())
	}
	slices.Sort(f.door)
}

// work sends one request after the other.
func (f *fleet) work(ctx context.Context, member *ratelimit.Fleet, p api.Priority) {
	for f.send(ctx, member, p) {
		time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	}
}

// people open pages, each of which takes some requests at once.
func (f *fleet) people(ctx context.Context, running *sync.WaitGroup, member *ratelimit.Fleet) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rand.ExpFloat64() * float64(12*time.Second)))
		for range 1 + rand.N(5) {
			running.Go(func() { f.send(ctx, member, api.PriorityInteractive) })
		}
	}
}

// send waits for the limiter, and then for the request to arrive.
func (f *fleet) send(ctx context.Context, member *ratelimit.Fleet, p api.Priority) bool {
	asked := time.Now()
	if member.Wait(api.ContextWithPriority(ctx, p)) != nil {
		return false
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits[p] = append(f.waits[p], now.Sub(asked))
	f.gap[p] = max(f.gap[p], now.Sub(f.began)-f.last[p])
	f.last[p] = now.Sub(f.began)
	f.door = append(f.door, now.Add(rand.N(time.Second)).Sub(f.began))
	return true
}

// checkLimit looks at every window at the door.
func (f *fleet) checkLimit() {
	for i := requests; i < len(f.door); i++ {
		if f.door[i]-f.door[i-requests] < per {
			assert.Fail(f.t, "more than the limit", "%d requests in the five minutes from %s", requests+1, f.door[i-requests])
			return
		}
	}
}

// checkReturn holds that the store is not rushed at when it is back, nor the platform.
func (f *fleet) checkReturn() {
	assert.Less(f.t, f.store.mostRush, processes, "exchanges in the second in which the store is back")
	const inTen = 4 * requests * 10 / int(per/time.Second)
	for i := inTen; i < len(f.door); i++ {
		if !assert.GreaterOrEqual(f.t, f.door[i]-f.door[i-inTen], 10*time.Second, "%d requests from %s", inTen+1, f.door[i-inTen]) {
			return
		}
	}
}

// errAway is the error of a store whose server was killed.
var errAway = errors.New("connection refused")

// faultyStore is a store at some distance, whose server can be killed.
type faultyStore struct {
	ratelimit.Store

	mu        sync.Mutex
	exchanges int
	returned  time.Time
	rush      int // exchanges in the second after the last return
	mostRush  int
	during    func() // happens during the next exchange, whose answer is lost
}

// setBack notes that the server is back.
func (s *faultyStore) setBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned, s.rush = time.Now(), 0
}

// duringNext calls happens after the server has stored the next record, and before it answers.
func (s *faultyStore) duringNext(happens func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.during = happens
}

func (s *faultyStore) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	time.Sleep(time.Millisecond + rand.N(4*time.Millisecond))
	s.mu.Lock()
	during := s.during
	s.during = nil
	s.exchanges++
	if !s.returned.IsZero() && time.Since(s.returned) < time.Second {
		s.rush++
		s.mostRush = max(s.mostRush, s.rush)
	}
	s.mu.Unlock()
	board, err := s.Store.Exchange(ctx, name, process, record, keep)
	if during != nil {
		during()
		return ratelimit.Board{}, errAway
	}
	return board, err
}

// outsideStore makes the exchanges of a bubble in a goroutine outside of it, where database
// clients wait for their sockets. Time in the bubble stands still meanwhile, and the returned
// times are by the bubble's clock.
type outsideStore struct {
	store  ratelimit.Store
	calls  chan func()
	done   chan struct{}
	mu     sync.Mutex
	stored map[version]time.Time
}

// version is a record of a process, by the store's clock.
type version struct {
	process string
	at      int64 // in microseconds
}

// runOutside must be called outside of the bubble.
func runOutside(t *testing.T, store ratelimit.Store) *outsideStore {
	s := &outsideStore{store: store, calls: make(chan func()), done: make(chan struct{}), stored: map[version]time.Time{}}
	go func() {
		for call := range s.calls {
			call()
			s.done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(s.calls) })
	return s
}

// do calls a function outside of the bubble.
func (s *outsideStore) do(call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doLocked(call)
}

func (s *outsideStore) doLocked(call func()) {
	s.calls <- call
	<-s.done
}

func (s *outsideStore) Exchange(_ context.Context, name, process string, record []byte, keep time.Duration) (board ratelimit.Board, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doLocked(func() { board, err = s.store.Exchange(context.Background(), name, process, record, keep) })
	if err != nil {
		return ratelimit.Board{}, err
	}
	now := time.Now()
	s.stored[version{process, board.Records[process].At.UnixMicro()}] = now
	inside := ratelimit.Board{Now: now, Records: map[string]ratelimit.Record{}}
	for id, r := range board.Records {
		inside.Records[id] = ratelimit.Record{At: s.stored[version{id, r.At.UnixMicro()}], Data: r.Data}
	}
	return inside, nil
}
