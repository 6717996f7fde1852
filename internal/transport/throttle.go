package transport

import (
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// throttle contains the end of the pause requested by the platform. A 429 applies to all
// requests and not only to the rejected one, so all views of a client share it.
type throttle struct{ until atomic.Pointer[time.Time] }

// maxThrottle limits the effect of one response, because a wrong value in it must not stop a
// program for days.
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

// left returns the remaining wait.
func (t *throttle) left() time.Duration {
	until := t.until.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

// throttledError means that a request was not sent because the platform has asked for a longer
// wait than the caller allows.
type throttledError struct{ left time.Duration }

func (e *throttledError) Error() string {
	return "dispensary: rate limited by the platform for another " + e.left.Round(time.Second).String()
}

func (e *throttledError) Is(target error) bool { return target == api.ErrRateLimited }
