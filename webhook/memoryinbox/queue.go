package memoryinbox

import (
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// entry is a stored event.
type entry struct {
	delivery    webhook.Delivery
	orderingKey webhook.OrderingKey
	object      webhook.OrderingKey
	seq         int64 // counts the events
	attempts    int
	due         time.Time // when it was given up, of a dead letter
	queue       *queue    // nil for a dead letter
	running     bool
	reason      string // why it failed
	failures    []engine.Failure
	err         error // what a dead letter failed with
}

// failed keeps a failed attempt.
func (e *entry) failed(a webhook.Attempt) {
	e.attempts, e.reason, e.failures = a.Number, a.Reason(), inboxkit.AppendFailure(e.failures, a, time.Now())
}

// queue has the events of one ordering key, the oldest first, which are handled
// one at a time. An event without an ordering key has a queue of its own.
type queue struct {
	entries []*entry
	taken   bool        // in Inbox.ready, or being handled
	timer   *time.Timer // runs until the first event is due
}

// insert puts an entry where its time belongs. Of two events of one time the one
// that came first is handled first.
func (q *queue) insert(e *entry) {
	at, _ := slices.BinarySearchFunc(q.entries, e, func(other, e *entry) int {
		if other.delivery.OrderTime().After(e.delivery.OrderTime()) {
			return 1
		}
		return -1
	})
	q.entries = slices.Insert(q.entries, at, e)
}

func (q *queue) remove(e *entry) {
	q.entries = slices.DeleteFunc(q.entries, func(other *entry) bool { return other == e })
}

func (q *queue) stopTimer() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// recent is a map that forgets its oldest key beyond a limit.
type recent[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K // a ring, once it has grown to limit
	next   int
}

func newRecent[K comparable, V any](limit int) recent[K, V] {
	return recent[K, V]{limit: limit, values: map[K]V{}}
}

func (r *recent[K, V]) has(key K) bool {
	_, ok := r.values[key]
	return ok
}

func (r *recent[K, V]) put(key K, value V) {
	switch {
	case r.has(key):
	case len(r.order) < r.limit:
		r.order = append(r.order, key)
	default:
		delete(r.values, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % r.limit
	}
	r.values[key] = value
}
