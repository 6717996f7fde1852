package webhook

import (
	"context"
	"iter"
	"slices"
	"time"
)

// work is the life of a worker.
func (m *MemoryInbox) work() {
	for m.ctx.Err() == nil {
		select {
		case <-m.ctx.Done():
		case l := <-m.ready:
			e, task := m.take(l)
			// A note in memory does not fail.
			_ = m.worker.Do(m.ctx, task, func(a Attempt) error {
				m.settle(l, e, a)
				return nil
			})
		}
	}
}

// take returns the first event of a line, which may be another one than the line
// was called for: an older one that came since.
func (m *MemoryInbox) take(l *line) (*entry, Task) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := l.entries[0]
	e.running = true
	return e, Task{
		Delivery: e.delivery,
		Attempt:  e.attempts + 1,
		Object:   e.object,
		Newest:   m.newest.known[e.object],
	}
}

// settle notes the outcome of an attempt.
func (m *MemoryInbox) settle(l *line, e *entry, a Attempt) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l.taken, e.running = false, false
	switch a.Result {
	case ResultHandled, ResultSkipped:
		if a.Object != "" && a.CreatedAt.After(m.newest.known[a.Object]) {
			m.newest.put(a.Object, a.CreatedAt)
		}
		m.leave(e)
		m.release(e)
	case ResultDead:
		m.leave(e)
		e.death = &DeadLetter{Delivery: e.delivery, Attempts: a.Number, Reason: a.Reason(), Err: a.Err, DiedAt: time.Now()}
	case ResultFailed:
		e.attempts, e.due = a.Number, time.Now().Add(a.RetryIn)
	case ResultReturned, ResultLost: // it stays where it is
	}
	m.call(l)
	m.checkIdle()
}

// DeadLetters implements [Engine].
func (m *MemoryInbox) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for _, letter := range m.deadLetters() {
			if err := ctx.Err(); err != nil {
				yield(DeadLetter{}, err)
				return
			}
			if !yield(letter, nil) {
				return
			}
		}
	}
}

func (m *MemoryInbox) deadLetters() []DeadLetter {
	m.mu.Lock()
	defer m.mu.Unlock()
	var letters []DeadLetter
	for _, e := range m.held {
		if e.death != nil {
			letters = append(letters, *e.death)
		}
	}
	slices.SortFunc(letters, func(a, b DeadLetter) int { return a.DiedAt.Compare(b.DiedAt) })
	return letters
}

// Replay implements [Engine].
func (m *MemoryInbox) Replay(ctx context.Context, key Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.held[key]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case m.closed:
		return ErrInboxClosed
	case e == nil || e.death == nil:
		return ErrNoDeadLetter
	}
	e.death, e.attempts = nil, 0
	m.enter(e)
	return nil
}

// Discard implements [Engine]. It works on a closed inbox too.
func (m *MemoryInbox) Discard(ctx context.Context, key Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.held[key]
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case e == nil || e.death == nil:
		return ErrNoDeadLetter
	}
	m.release(e)
	return nil
}

// Stats implements [Engine].
func (m *MemoryInbox) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return s, ctx.Err()
	case m.closed:
		return s, ErrInboxClosed
	}
	for _, e := range m.held {
		switch {
		case e.death != nil:
			s.Dead++
			continue
		case e.running:
			s.Running++
		default:
			s.Waiting++
		}
		if at := e.delivery.ReceivedAt; s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
	return s, nil
}
