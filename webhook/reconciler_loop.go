package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// minPause is how soon a run that failed is tried again; it doubles with every
// further failure.
const minPause = time.Minute

// Every runs the reconciler at once and then again and again, interval apart,
// give or take a tenth, until ctx ends; its error is the cause of that. An hour
// is a good interval. A run that failed is repeated after a minute, then two,
// and so on up to the interval; what failed is logged, and told to
// [ReconcilerConfig.Observe].
//
// With several replicas each of them can call it: after its first run, what one
// has done the others skip, by the clock of each.
//
// [Reconciler.Wake] starts a run before its time.
func (r *Reconciler) Every(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return errors.New("webhook: Reconciler.Every: interval must be positive")
	}
	var fresh time.Duration // the first run is for what happened while the program was not there
	failures := 0
	for ctx.Err() == nil {
		pause := interval - interval/10 + rand.N(interval/5+1)
		if _, err := r.run(ctx, fresh); err != nil {
			pause = min(pause, minPause<<min(failures, 10))
			failures++
		} else {
			failures = 0
		}
		fresh = interval / 2
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.wake:
			fresh = 0
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return context.Cause(ctx)
}

// Wake has [Reconciler.Every] start a run now, or after the one that is under
// way. It does not wait for it.
func (r *Reconciler) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it has been told
	}
}

// AfterOutage wakes the reconciler once an outage is over: the platform has
// given up some of what it could not deliver meanwhile. Give it to
// [AlarmConfig.Notify], or call it there.
func (r *Reconciler) AfterOutage(_ context.Context, o Outage) {
	if o.Over {
		r.Wake()
	}
}
