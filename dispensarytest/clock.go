package dispensarytest

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
)

// Clock is the clock of a platform. Authorization codes, access tokens, webhook retries, the
// 30 days of retention and signature timestamps use it. A live clock follows the time package,
// and so the time of the bubble inside testing/synctest. A frozen clock moves only by
// [Clock.Advance].
//
// A Clock is safe for concurrent use. Several platforms can share one with [WithClock].
type Clock struct{ clock *clock.Clock }

// FrozenClock returns a clock that stays at the given time until it is advanced.
func FrozenClock(at time.Time) *Clock { return &Clock{clock.Frozen(at)} }

// Now returns the platform's time, in UTC.
func (c *Clock) Now() time.Time { return c.clock.Now() }

// Frozen reports whether the clock moves only by [Clock.Advance].
func (c *Clock) Frozen() bool { return c.clock.Frozen() }

// Next returns the time of the next task, a webhook delivery or retry. It returns false if
// there is none.
func (c *Clock) Next() (time.Time, bool) { return c.clock.Next() }

// Advance moves the clock forward and runs all tasks that become due, including tasks that
// those tasks schedule. It runs them in order, each at its own time, and then returns.
// Advance(0) runs the tasks that are already due.
//
// A webhook receiver of this platform must not call Advance, because its delivery is one of
// the tasks. Advance panics if d is negative.
func (c *Clock) Advance(d time.Duration) { c.clock.Advance(d) }
