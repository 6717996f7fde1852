package dispensarytest

import (
	"slices"
	"sync"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Journal remembers the latest requests; see Tuning.JournalLimit.
type Journal struct {
	changes *clock.Notifier
	clock   *clock.Clock
	limit   int

	mu   sync.Mutex
	seq  int
	ring []model.Request // full once it has limit entries; then seq tells the oldest
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

// Requests returns the remembered requests of the operations, for example "patients.create",
// or of all operations without arguments. The oldest is first.
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

// Reset forgets all requests, so that a test can look at its next step alone.
func (j *Journal) Reset() {
	defer j.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.seq = nil, 0
}
