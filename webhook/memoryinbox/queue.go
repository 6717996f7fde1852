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
	seq         int64 // the number of the event since New
	attempts    int
	due         time.Time // the time of death for a dead letter
	queue       *queue    // nil for a dead letter
	running     bool
	reason      string // of the last failed attempt
	failures    []engine.Failure
	err         error // of the last attempt of a dead letter
}

// failed records a failed attempt.
func (e *entry) failed(a webhook.Attempt) {
	e.attempts, e.reason, e.failures = a.Number, a.Reason(), inboxkit.AppendFailure(e.failures, a, time.Now())
}

// queue contains the events of one ordering key, oldest first. Workers handle one event of a queue
// at a time. Each event without an ordering key gets its own queue.
type queue struct {
	entries []*entry
	taken   bool        // in Inbox.ready or in a worker
	timer   *time.Timer // runs until the first event is due
}

// insert adds an entry in order of OrderTime. Events with the same time keep their order of
// arrival.
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

// recent is a map with a limit. A new key beyond the limit replaces the oldest key.
type recent[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K // a ring once its length is limit
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
