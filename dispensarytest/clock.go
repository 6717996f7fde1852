package dispensarytest

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// Clock is the one clock of a platform: authorization codes, access tokens,
// webhook retries, the 30 days of retention and signature timestamps all read
// it. A live clock follows the time package, so that inside testing/synctest it
// follows the bubble's time; a frozen one moves only by [Clock.Advance].
//
// A Clock is safe for concurrent use. Several platforms share one with [WithClock].
type Clock struct{ clock *clock.Clock }

// FrozenClock returns a clock that stands at the given time until it is
// advanced.
func FrozenClock(at time.Time) *Clock { return &Clock{clock.Frozen(at)} }

// Now returns the platform's time, in UTC.
func (c *Clock) Now() time.Time { return c.clock.Now() }

// Frozen reports whether the clock moves only by [Clock.Advance].
func (c *Clock) Frozen() bool { return c.clock.Frozen() }

// Next returns when the next task (a webhook delivery or retry) is due, and
// false when nothing is waiting.
func (c *Clock) Next() (time.Time, bool) { return c.clock.Next() }

// Advance moves the clock forward and, before it returns, runs everything that
// falls due on the way: in order, each at its own due time, including what
// those tasks schedule themselves. Advance(0) runs what is due already.
//
// It must not be called from inside a webhook receiver of this platform: the
// delivery that waits for the receiver is one of the tasks. A negative duration
// panics.
func (c *Clock) Advance(d time.Duration) { c.clock.Advance(d) }
