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

// Len is how many requests there were, forgotten ones included.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
}

// Requests returns the remembered requests, the oldest first.
func (j *Journal) Requests() []model.Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ring) < j.limit {
		return slices.Clone(j.ring)
	}
	oldest := j.seq % j.limit
	return slices.Concat(j.ring[oldest:], j.ring[:oldest])
}

// Of returns the remembered requests of an operation, the oldest first.
func (j *Journal) Of(operation string) []model.Request {
	return slices.DeleteFunc(j.Requests(), func(r model.Request) bool { return r.Operation != operation })
}

// Last returns the latest request, and false when there was none.
func (j *Journal) Last() (model.Request, bool) {
	all := j.Requests()
	if len(all) == 0 {
		return model.Request{}, false
	}
	return all[len(all)-1], true
}

// Reset forgets all requests, so that a test can look at its next step alone.
func (j *Journal) Reset() {
	defer j.changes.Notify()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring, j.seq = nil, 0
}
