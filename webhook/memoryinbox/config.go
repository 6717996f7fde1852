package memoryinbox

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config is what an [Inbox] is made of. Work.Handle is required; everything else
// has a default.
type Config struct {
	// Work says how events are handled. Retries have other defaults than
	// elsewhere, as a process must not wait long for its end: 10 attempts, and
	// waits of at most five minutes.
	Work webhook.Work

	// MaxEvents is the largest number of stored events, dead letters included. 0 means
	// 10,000. Accept rejects further events, so the platform sends them again.
	MaxEvents int

	// MaxBytes is the largest size of all stored bodies. 0 means 64 MiB.
	MaxBytes int64

	// MaxKeys is how many keys of handled events are remembered, to recognise
	// duplicates, and of how many objects the newest event is; 0 means 100,000.
	// The oldest are forgotten first.
	MaxKeys int
}

func (c Config) withDefaults() (Config, error) {
	for field, negative := range map[string]bool{"MaxEvents": c.MaxEvents < 0, "MaxBytes": c.MaxBytes < 0, "MaxKeys": c.MaxKeys < 0} {
		if negative {
			return c, &api.ArgumentError{Field: "memoryinbox.Config." + field, Reason: "is negative"}
		}
	}
	c.MaxEvents = cmp.Or(c.MaxEvents, 10_000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 64<<20)
	c.MaxKeys = cmp.Or(c.MaxKeys, 100_000)
	c.Work.Retry.MaxAttempts = cmp.Or(c.Work.Retry.MaxAttempts, 10)
	c.Work.Retry.MaxBackOff = cmp.Or(c.Work.Retry.MaxBackOff, 5*time.Minute)
	return c, nil
}

// errUnfinished is matched by the error of [Inbox.Close] if the inbox still stores events.
var errUnfinished = errors.New("memoryinbox: closed with events that are not handled")
