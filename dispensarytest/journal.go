package dispensarytest

import (
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Journal contains the latest requests. See Tuning.JournalLimit.
type Journal struct {
	changes *clock.Notifier
	clock   *clock.Clock
	limit   int

	mu   sync.Mutex
	seq  int
	ring []model.Request // at limit entries it is full, and seq determines the oldest
}

func (j *Journal) add(r *model.Request) {
	defer j.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq++
	r.Seq = j.seq
	if len(j.ring) < j.limit {
		j.ring = append(j.ring, *r)
		return
	}
	j.ring[(j.seq-1)%j.limit] = *r
}

// Requests returns the recorded requests of the given operations, for example
// "patients.create", or of all operations without arguments. The oldest is first.
func (j *Journal) Requests(operations ...string) []model.Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(j.ring)
	if len(j.ring) == j.limit {
		oldest := j.seq % j.limit
		all = slices.Concat(j.ring[oldest:], j.ring[:oldest])
	}
	if len(operations) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(r model.Request) bool { return !slices.Contains(operations, r.Operation) })
}

// Reset deletes all requests, so that a test can check its next step separately.
func (j *Journal) Reset() {
	defer j.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.seq = nil, 0
}
