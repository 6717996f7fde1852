package publish

import (
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// Bounds of [unrecorded].
const (
	maxUnrecorded  = 10_000
	keepUnrecorded = time.Hour // since the message was last delivered
)

// unrecorded stores the outcomes of dead letters that could not be published. The broker
// redelivers such a message, but the consumer must not call its handler again. The zero value is
// ready to use.
type unrecorded struct {
	mu       sync.Mutex
	outcomes map[string]outcome // by the IDs of the messages
}

// outcome is the last attempt of a message, without its body.
type outcome struct {
	attempt  webhook.Attempt
	failures int
	last     time.Time
}

// find returns the last attempt of a message. An old outcome does not count: another
// replica may have recorded it, and a new message may have the same ID.
func (u *unrecorded) find(id string) (webhook.Attempt, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire(id, time.Now())
	found, ok := u.outcomes[id]
	return found.attempt, ok
}

// failed stores the outcome of a message and returns the number of failures to record it.
func (u *unrecorded) failed(id string, a webhook.Attempt) int {
	a.Body = nil
	u.mu.Lock()
	defer u.mu.Unlock()
	found, known := u.outcomes[id]
	found.last = time.Now()
	found.failures++
	found.attempt = a
	if !known && len(u.outcomes) >= maxUnrecorded {
		for other := range u.outcomes {
			u.expire(other, found.last)
		}
	}
	if u.outcomes == nil {
		u.outcomes = map[string]outcome{}
	}
	if known || len(u.outcomes) < maxUnrecorded {
		u.outcomes[id] = found
	}
	return found.failures
}

// expire deletes the outcome of a message if it is older than keepUnrecorded.
func (u *unrecorded) expire(id string, now time.Time) {
	if one, ok := u.outcomes[id]; ok && now.Sub(one.last) > keepUnrecorded {
		delete(u.outcomes, id)
	}
}

func (u *unrecorded) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.outcomes, id)
}

func (u *unrecorded) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.outcomes)
}
