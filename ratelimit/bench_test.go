package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/ratelimit"
)

// mutexRing is the floor: a ring of times behind a mutex, which knows no priorities.
type mutexRing struct {
	mu     sync.Mutex
	starts []time.Time
	next   int
}

func (r *mutexRing) Wait(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.Sub(r.starts[r.next]) < time.Nanosecond {
		return ctx.Err()
	}
	r.starts[r.next] = now
	r.next = (r.next + 1) % len(r.starts)
	return ctx.Err()
}

// A request that need not wait, in a window that forgets as many as it takes.
func BenchmarkWait(b *testing.B) {
	const requests, per = 100_000_000, 10 * time.Millisecond
	limiter, err := ratelimit.New(requests, per)
	require.NoError(b, err)
	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: ratelimit.NewMemoryStore(), Requests: requests, Per: time.Second, Processes: 1})
	require.NoError(b, err)
	for name, wait := range map[string]func(context.Context) error{
		"floor": (&mutexRing{starts: make([]time.Time, 1000)}).Wait, "limiter": limiter.Wait, "fleet": fleet.Wait,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if wait(b.Context()) != nil {
					b.Fatal("it waits")
				}
			}
		})
	}
}
