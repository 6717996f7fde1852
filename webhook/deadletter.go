package webhook

import (
	"slices"
	"strconv"
	"time"
)

// DeadLetter is an event that a [MemoryInbox] has given up. It prints as its
// [Delivery] does.
type DeadLetter struct {
	Delivery

	// Attempts is how often it was tried.
	Attempts int

	// Err is what the last attempt failed with. It may repeat patient data if
	// the handler's errors do.
	Err error

	// DiedAt is when it was given up.
	DiedAt time.Time
}

// DeadLetters returns the events that were given up, the oldest first.
func (m *MemoryInbox) DeadLetters() []DeadLetter {
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

// Replay handles a dead letter again, with as many attempts as a new event. It
// fails with [ErrNoDeadLetter] and [ErrInboxClosed].
func (m *MemoryInbox) Replay(key Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.held[key]
	switch {
	case m.closed:
		return ErrInboxClosed
	case e == nil || e.death == nil:
		return ErrNoDeadLetter
	}
	e.death, e.attempts = nil, 0
	m.alive++
	m.ready <- e
	return nil
}

// Discard drops a dead letter. Its key stays known: should the platform send the
// event once more, it is a duplicate. It fails with [ErrNoDeadLetter].
func (m *MemoryInbox) Discard(key Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.held[key]
	if e == nil || e.death == nil {
		return ErrNoDeadLetter
	}
	m.release(e)
	return nil
}

// UnfinishedError gives back what a [MemoryInbox] held when it was closed. It
// matches [ErrUnfinished].
type UnfinishedError struct {
	// Deliveries were acknowledged to the platform and not handled, dead
	// letters included; the oldest first.
	Deliveries []Delivery
}

// Error returns how many there are.
func (e *UnfinishedError) Error() string {
	return ErrUnfinished.Error() + ": " + strconv.Itoa(len(e.Deliveries))
}

// Unwrap returns [ErrUnfinished].
func (e *UnfinishedError) Unwrap() error { return ErrUnfinished }
