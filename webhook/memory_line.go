package webhook

import (
	"slices"
	"time"
)

// entry is an event that a MemoryInbox holds.
type entry struct {
	delivery        Delivery
	subject, object Subject
	attempts        int
	due             time.Time
	line            *line // nil once dead
	running         bool
	death           *DeadLetter // nil while alive
}

// line is the events of one subject that wait for each other, the oldest first.
// An event without a subject stands in a line of its own.
type line struct {
	entries []*entry
	taken   bool        // in ready, or being handled
	timer   *time.Timer // until the first is due
}

// enter puts a living event in its line.
func (m *MemoryInbox) enter(e *entry) {
	m.alive++
	l := m.lines[e.subject]
	if l == nil || e.subject == "" {
		l = &line{}
		if e.subject != "" {
			m.lines[e.subject] = l
		}
	}
	e.line, e.due = l, time.Time{}
	at, _ := slices.BinarySearchFunc(l.entries, e, func(other, e *entry) int {
		if other.delivery.OrderTime().After(e.delivery.OrderTime()) {
			return 1
		}
		return -1 // the one that came first goes first
	})
	l.entries = slices.Insert(l.entries, at, e)
	m.call(l)
}

// leave takes an event out of its line.
func (m *MemoryInbox) leave(e *entry) {
	l := e.line
	m.alive--
	e.line = nil
	l.entries = slices.DeleteFunc(l.entries, func(other *entry) bool { return other == e })
	if len(l.entries) == 0 && e.subject != "" {
		delete(m.lines, e.subject)
	}
}

// call has the first of a line handled as soon as it is due, unless one of the
// line is at it.
func (m *MemoryInbox) call(l *line) {
	l.stop()
	if l.taken || len(l.entries) == 0 || m.ctx.Err() != nil {
		return
	}
	if wait := time.Until(l.entries[0].due); wait > 0 {
		l.timer = time.AfterFunc(wait, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.call(l)
		})
		return
	}
	l.taken = true
	m.ready <- l
}

func (l *line) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// ring remembers the last things it was told, up to a limit.
type ring[K comparable, V any] struct {
	limit int
	known map[K]V
	order []K // a ring, once it has grown to limit
	next  int
}

func newRing[K comparable, V any](limit int) ring[K, V] {
	return ring[K, V]{limit: limit, known: map[K]V{}}
}

func (r *ring[K, V]) has(key K) bool {
	_, ok := r.known[key]
	return ok
}

func (r *ring[K, V]) put(key K, value V) {
	switch {
	case r.has(key):
	case len(r.order) < r.limit:
		r.order = append(r.order, key)
	default:
		delete(r.known, r.order[r.next])
		r.order[r.next] = key
		r.next = (r.next + 1) % r.limit
	}
	r.known[key] = value
}
