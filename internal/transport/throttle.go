package transport

import (
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// throttle is until when the platform has asked for no more requests. A 429 is about
// all requests and not about the one that got it, so all views of a client share it.
type throttle struct{ until atomic.Pointer[time.Time] }

// maxThrottle bounds what one answer can do: a mistake in it must not stop a program
// for days.
const maxThrottle = time.Hour

// extend records that the platform asked for a wait from now on, of at most maxThrottle.
func (t *throttle) extend(asked time.Duration) {
	until := time.Now().Add(asked)
	for {
		known := t.until.Load()
		if known != nil && !known.Before(until) || t.until.CompareAndSwap(known, &until) {
			return
		}
	}
}

// left returns how long the wait still is.
func (t *throttle) left() time.Duration {
	until := t.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

// throttledError is a request that was not sent because the platform has asked for a
// longer wait than the caller has.
type throttledError struct{ left time.Duration }

func (e *throttledError) Error() string {
	return "dispensary: the platform has asked to wait for " + e.left.Round(time.Second).String()
}

func (e *throttledError) Is(target error) bool { return target == api.ErrRateLimited }
