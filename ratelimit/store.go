package ratelimit

import (
	"context"
	"sync"
	"time"
)

// Window is a maximum number of starts, at least 1, in any period of length Per.
type Window struct {
	Starts int
	Per    time.Duration
}

// Store counts the starts of all processes of a [Fleet], by its own clock. Starts and pauses
// of different names are separate. A Store is safe for concurrent use.
type Store interface {
	// Take records past starts. Then it records up to want more starts: each one if every
	// window, ending now, contains fewer starts than its Starts. The whole call is atomic:
	// concurrent calls for one name run one after the other.
	//
	// The first window is the whole limit. Every call for a name passes the same first window,
	// and the store keeps as many starts as it permits.
	Take(ctx context.Context, name string, past, want int, windows ...Window) (Taken, error)

	// Pause stores a pause of d from now, unless the stored pause is longer.
	Pause(ctx context.Context, name string, d time.Duration) error
}

// Taken is the result of a [Store].Take.
type Taken struct {
	// Starts is the number of recorded starts without the past ones.
	Starts int

	// Wait is 0 if Starts equals want. Otherwise it is positive: the time until all windows
	// permit one more start, if no other start is recorded before.
	Wait time.Duration

	// Pause is the remaining time of the stored pause, or 0.
	Pause time.Duration
}

// memoryStore is a [Store] in memory.
type memoryStore struct {
	begin  time.Time
	mu     sync.Mutex
	limits map[string]*memoryLimit
}

// memoryLimit is the state of one name.
type memoryLimit struct {
	starts window
	pause  time.Duration // its end
}

// NewMemoryStore returns a store in memory, for a fleet with one process, such as in tests.
func NewMemoryStore() Store {
	return &memoryStore{begin: time.Now(), limits: map[string]*memoryLimit{}}
}

// Take implements [Store].
func (s *memoryStore) Take(ctx context.Context, name string, past, want int, windows ...Window) (Taken, error) {
	if err := ctx.Err(); err != nil {
		return Taken{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, now := s.limit(name), time.Since(s.begin)
	limit.starts.per = windows[0].Per
	limit.starts.forget(now)
	for range past {
		limit.starts.add(now)
	}
	taken := Taken{Pause: max(0, limit.pause-now)}
	for ; taken.Starts < want; taken.Starts++ {
		if taken.Wait = limit.starts.free(windows, 0, now) - now; taken.Wait > 0 {
			break
		}
		limit.starts.add(now)
	}
	return taken, nil
}

// Pause implements [Store].
func (s *memoryStore) Pause(ctx context.Context, name string, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.limit(name)
	limit.pause = max(limit.pause, time.Since(s.begin)+d)
	return nil
}

func (s *memoryStore) limit(name string) *memoryLimit {
	if s.limits[name] == nil {
		s.limits[name] = &memoryLimit{}
	}
	return s.limits[name]
}
