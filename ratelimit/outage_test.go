package ratelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// The store fails while four processes or only one of them send as many interactive requests
// as possible. The number of requests is bounded in the periods around the outage, and in the
// periods after all processes have returned to the store.
func TestFleetBoundsRequestsAroundOutages(t *testing.T) {
	t.Parallel()
	const twice, thrice = 2 * fleetRequests, 3 * fleetRequests
	for name, o := range map[string]struct {
		busy        int
		outage      time.Duration
		loses       bool // the store loses its records
		most, after int
	}{
		"short outage, all busy":        {busy: 4, outage: 20 * time.Second, most: twice, after: fleetRequests},
		"short outage, one busy":        {busy: 1, outage: 20 * time.Second, most: twice, after: fleetRequests},
		"long outage, all busy":         {busy: 4, outage: 3 * fleetPer, most: twice, after: fleetRequests},
		"long outage, one busy":         {busy: 1, outage: 3 * fleetPer, most: twice, after: fleetRequests},
		"records lost":                  {busy: 4, loses: true, most: twice, after: fleetRequests},
		"records lost, short outage":    {busy: 4, outage: 20 * time.Second, loses: true, most: thrice, after: fleetRequests},
		"records lost, a period's long": {busy: 4, outage: fleetPer, loses: true, most: thrice, after: fleetRequests},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
				for i := range 4 {
					member := f.join()
					if i < o.busy {
						f.saturate(ctx, api.PriorityRefresh, member)
					}
					time.AfterFunc(2*fleetPer, func() { f.saturate(ctx, api.PriorityInteractive, member) })
				}
				time.Sleep(2*fleetPer - time.Second)
				f.store.set(down)
				if o.loses {
					f.store.replace(ratelimit.NewMemoryStore())
				}
				if o.outage > 2*fleetPer {
					time.Sleep(2 * fleetPer)
					f.counted()
					time.Sleep(fleetPer)
					assert.InDelta(f, fleetRequests, f.counted(), fleetRequests/10, "each process uses its share")
					time.Sleep(o.outage - 3*fleetPer)
				} else {
					time.Sleep(o.outage)
				}
				f.store.set(nil)
				time.Sleep(10 * time.Second)
				back := time.Now()
				time.Sleep(3 * fleetPer)
				t.Logf("most %d, after %d", f.most(time.Time{}), f.most(back))
				assert.LessOrEqual(f, f.most(time.Time{}), o.most)
				assert.LessOrEqual(f, f.most(back), o.after)
				assert.LessOrEqual(f, f.most(back.Add(fleetPer)), fleetRequests)
				f.counted()
				time.Sleep(fleetPer + 5*time.Second)
				assert.GreaterOrEqual(f, f.counted(), fleetRequests*9/10, "the whole limit is used again")
			})
		})
	}
}

// If the store does not respond, only the requests that wait at that time lose one timeout.
func TestSilentStoreCostsOneTimeout(t *testing.T) {
	t.Parallel()
	for name, obeys := range map[string]bool{"obeys its context": true, "ignores its context": false} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, ratelimit.FleetConfig{Timeout: 200 * time.Millisecond}, func(ctx context.Context, f *fleet) {
				forever := make(chan struct{})
				defer close(forever)
				f.store.set(func(ctx context.Context) error {
					if !obeys {
						ctx = context.WithoutCancel(ctx)
					}
					select {
					case <-ctx.Done():
					case <-forever:
					}
					return errDown
				})
				member := f.join()
				for range 3 { // the first three wait together
					go func() { _ = f.send(ctx, member, api.PriorityInteractive) }()
				}
				time.Sleep(200 * time.Millisecond)
				synctest.Wait()
				require.Len(f, f.waits, 3)
				for range 60 {
					time.Sleep(time.Second)
					require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
				}
				for i, wait := range f.waits {
					assert.LessOrEqual(f, wait, 200*time.Millisecond)
					assert.True(f, i < 3 || wait == 0, "request %d waited for %s", i, wait)
				}
				assert.LessOrEqual(f, f.store.called(), map[bool]int{true: 61, false: 1}[obeys])
			})
		})
	}
}

// A request that waits for the share starts once the store is available again.
func TestFleetReturnsToStore(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		f.store.set(down)
		member := f.join()
		for range fleetRequests / 4 {
			require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		}
		time.AfterFunc(time.Minute, func() { f.store.set(nil) })
		asked := time.Now()
		require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		assert.InDelta(f, time.Minute, time.Since(asked), float64(10*time.Second))
		for range fleetRequests - fleetRequests/4 - 1 {
			require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		}
		short, cancel := context.WithTimeout(ctx, 3*time.Minute)
		defer cancel()
		assert.ErrorIs(f, f.send(short, f.join(), api.PriorityInteractive), ratelimit.ErrDeadline, "the store knows all starts")
	})
}

func TestPanickingStoreIsUnavailable(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		f.store.set(func(context.Context) error { panic("secret") })
		assert.NoError(f, f.send(ctx, f.join(), api.PriorityInteractive))
	})
}

// A process without requests does not call an unavailable store.
func TestIdleFleetCallsNoStore(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		member := f.join()
		short, cancel := context.WithCancel(ctx)
		f.saturate(short, api.PriorityCatalog, member)
		time.Sleep(time.Minute)
		cancel()
		f.store.set(down)
		assert.NoError(f, f.send(ctx, member, api.PriorityInteractive))
		synctest.Wait()
		calls := f.store.called()
		time.Sleep(time.Hour)
		assert.Equal(f, calls, f.store.called())
	})
}

// lateStore records starts at once and responds after a time.
type lateStore struct {
	ratelimit.Store
	late time.Duration
}

func (s lateStore) Take(ctx context.Context, name string, past, want int, windows ...ratelimit.Window) (ratelimit.Taken, error) {
	defer time.Sleep(s.late)
	return s.Store.Take(ctx, name, past, want, windows...)
}

// The starts of a late response and the starts without the store are the same requests.
func TestFleetCountsStartsOfLateResponseOnce(t *testing.T) {
	inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
		store := ratelimit.NewMemoryStore()
		member := f.join()
		for range 10 {
			f.store.replace(lateStore{store, 5 * time.Second})
			for range 5 {
				go func() { _ = f.send(ctx, member, api.PriorityInteractive) }()
			}
			time.Sleep(6 * time.Second)
			f.store.replace(store)
			require.NoError(f, f.send(ctx, member, api.PriorityInteractive)) // probes the store
			time.Sleep(6 * time.Second)
		}
		require.NoError(f, f.send(ctx, member, api.PriorityInteractive)) // records the start during the last probe
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for other := f.join(); f.send(short, other, api.PriorityInteractive) == nil; {
			continue
		}
		assert.Equal(f, fleetRequests, f.counted())
	})
}

// A request beyond the share waits for the store, even if several probes fail.
func TestWaitingRequestProbesStore(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]time.Duration{"fails": 0, "fails after timeout": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, ratelimit.FleetConfig{}, func(ctx context.Context, f *fleet) {
				member := f.join()
				for range fleetRequests / 4 {
					require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
				}
				f.store.set(func(context.Context) error { time.Sleep(hangs); return errDown })
				time.AfterFunc(9*time.Second, func() { f.store.set(nil) })
				asked := time.Now()
				require.NoError(f, f.send(ctx, member, api.PriorityInteractive))
				assert.Less(f, time.Since(asked), 15*time.Second)
			})
		})
	}
}

func TestMemoryStorePassesConformanceSuite(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(*testing.T) ratelimit.Store { return ratelimit.NewMemoryStore() })
}

func TestFleetSurvivesFailingStore(t *testing.T) {
	t.Parallel()
	store := &faultyStore{store: ratelimit.NewMemoryStore()}
	ratelimittest.RunKilled(t, ratelimittest.Server{
		Store: store,
		Kill:  func() { store.set(down) },
		Start: func() { store.set(nil) },
	})
}
