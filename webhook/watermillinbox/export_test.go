package watermillinbox

import (
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// Crash ends an inbox as the end of its process would: its store, which has to
// have a method Die, does not answer any more, and nothing is renewed or noted.
func (i *Inbox) Crash() {
	i.store.(interface{ Die() }).Die()
	i.stop()
	i.queue.stop()
	i.cancel()
}

// SweepNow searches the store at once.
func (i *Inbox) SweepNow() error { return i.sweep(i.running, 0) }

// WithMargin sets how much longer than its time-out a handler may take.
func (c Config) WithMargin(margin time.Duration) Config {
	c.margin = margin
	return c
}

// EventKey returns the key of the entry of an event.
func EventKey(key webhook.Key) string { return kindEvent + eventID(key) }
