package memoryinbox

import (
	"cmp"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config configures an [Inbox]. Work.Handle is required. All other fields have defaults.
type Config struct {
	// Work configures the handling of events. Its retries have shorter defaults than in other
	// engines, because Close waits for them: 10 attempts, and waits of at most 5 minutes.
	Work webhook.Work

	// MaxEvents is the largest number of stored events, including dead letters. 0 means 10,000.
	// Accept rejects further events, so the platform sends them again.
	MaxEvents int

	// MaxBytes is the largest size of all stored bodies in bytes. 0 means 64 MiB.
	MaxBytes int64

	// MaxKeys is the number of keys of handled events that the inbox keeps to recognize
	// duplicates. It also limits the number of objects for which the inbox keeps the time of the
	// newest event. 0 means 100,000. The inbox drops the oldest entries first.
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

// errUnfinished is the error of [Inbox.Close] if the inbox still stores events.
var errUnfinished = errors.New("memoryinbox: closed with unhandled events")
