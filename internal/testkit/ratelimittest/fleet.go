package ratelimittest

import (
	"context"
	"errors"
	"fmt"
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

// testFleet runs eight processes for forty minutes of fake time, three priorities of which have
// more to do than there is room for. The door is where the requests arrive. It is so long because
// once in some hundred periods a process has more people than it and the pool have room for: of
// the waits of one period alone they can be one in a hundred.
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
		t.Logf("%d requests in %s, %d in the fullest period; people waited %s (p99), %s at most; one exchange in %.0f requests; by priority: %s",
			len(f.door), duration, f.most(per), waits[len(waits)*99/100], waits[len(waits)-1], float64(len(f.door))/float64(f.store.exchanges), f.counts())
	})
}

// testOutage takes the store away for a while.
func testOutage(t *testing.T, store ratelimit.Store, outage time.Duration) {
	outside := runOutside(t, store)
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, outside)
		time.AfterFunc(3*time.Minute, func() { f.store.setAway(true) })
		time.AfterFunc(3*time.Minute+outage, func() { f.store.setAway(false) })
		f.run(3*time.Minute + outage + 7*time.Minute)
		f.checkLimit()
		f.checkReturn()
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
	f.door = append(f.door, now.Add(rand.N(ratelimit.DefaultTravel)).Sub(f.began))
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
	inTen := f.most(10 * time.Second)
	assert.Less(f.t, inTen, 4*requests*10/int(per/time.Second), "requests in any ten seconds")
	f.t.Logf("%d requests, %d in the fullest period, %d in ten seconds at most; %d exchanges, %d in the second after a return at most; by priority: %s",
		len(f.door), f.most(per), inTen, f.store.exchanges, f.store.mostRush, f.counts())
}

// most returns how many requests arrive in any time so long, at most.
func (f *fleet) most(length time.Duration) (most int) {
	for i, at := range f.door {
		j, _ := slices.BinarySearch(f.door, at+length)
		most = max(most, j-i)
	}
	return most
}

func (f *fleet) counts() (text string) {
	for p, waits := range f.waits {
		text += fmt.Sprintf("%s %d; ", api.Priority(p), len(waits))
	}
	return text
}

// errAway is what a store says that is away.
var errAway = errors.New("connection refused")

// faultyStore is a store at some distance, which can be away.
type faultyStore struct {
	ratelimit.Store

	mu        sync.Mutex
	exchanges int
	away      bool
	returned  time.Time
	rush      int // exchanges in the second after the last return
	mostRush  int
	during    func() // happens during the next exchange, whose answer is lost
}

// setAway takes the store away, or brings it back.
func (s *faultyStore) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.returned, s.rush = away, time.Now(), 0
}

// duringNext has something happen to the server after it has stored the next record, and before
// it answers.
func (s *faultyStore) duringNext(happens func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.during = happens
}

func (s *faultyStore) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	time.Sleep(time.Millisecond + rand.N(4*time.Millisecond))
	s.mu.Lock()
	away, during := s.away, s.during
	s.during = nil
	s.exchanges++
	if !s.returned.IsZero() && !away && time.Since(s.returned) < time.Second {
		s.rush++
		s.mostRush = max(s.mostRush, s.rush)
	}
	s.mu.Unlock()
	if away {
		return ratelimit.Board{}, errAway
	}
	board, err := s.Store.Exchange(ctx, name, process, record, keep)
	if during != nil {
		during()
		return ratelimit.Board{}, errAway
	}
	return board, err
}

// outsideStore makes the exchanges of a bubble in a goroutine outside of it, where the clients
// of databases wait for their sockets. Waiting for it does not move the bubble's time. The times
// in its answers are by the bubble's clock.
type outsideStore struct {
	mu       sync.Mutex
	asked    chan func(ratelimit.Store) (ratelimit.Board, error)
	answered chan answer
	stored   map[version]time.Time
}

type answer struct {
	board ratelimit.Board
	err   error
}

// version is a record of a process, by the store's clock.
type version struct {
	process string
	at      int64 // in microseconds
}

// runOutside has store asked outside of the bubble that the caller will make.
func runOutside(t *testing.T, store ratelimit.Store) *outsideStore {
	s := &outsideStore{
		asked: make(chan func(ratelimit.Store) (ratelimit.Board, error)), answered: make(chan answer),
		stored: map[version]time.Time{},
	}
	go func() {
		for ask := range s.asked {
			board, err := ask(store)
			s.answered <- answer{board, err}
		}
	}()
	t.Cleanup(func() { close(s.asked) })
	return s
}

// do calls a function outside of the bubble.
func (s *outsideStore) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked <- func(ratelimit.Store) (ratelimit.Board, error) {
		f()
		return ratelimit.Board{}, nil
	}
	<-s.answered
}

func (s *outsideStore) Exchange(_ context.Context, name, process string, record []byte, keep time.Duration) (ratelimit.Board, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked <- func(store ratelimit.Store) (ratelimit.Board, error) {
		return store.Exchange(context.Background(), name, process, record, keep)
	}
	got := <-s.answered
	if got.err != nil {
		return ratelimit.Board{}, got.err
	}
	now := time.Now()
	s.stored[version{process, got.board.Records[process].At.UnixMicro()}] = now
	board := ratelimit.Board{Now: now, Records: map[string]ratelimit.Record{}}
	for id, r := range got.board.Records {
		board.Records[id] = ratelimit.Record{At: s.stored[version{id, r.At.UnixMicro()}], Data: r.Data}
	}
	return board, nil
}
