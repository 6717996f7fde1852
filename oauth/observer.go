package oauth

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api/observe"
)

// Observer is told how requests to the platform and refreshes of tokens go, for
// traces and metrics; what happens to users is told to [Config.OnEvent]. Any
// function may be nil. They must be quick and safe for concurrent use.
type Observer struct {
	// Calls is told of the calls of the token endpoint: exchanging a code,
	// refreshing, revoking.
	Calls observe.Observer

	// RefreshStart is called when a token is about to be replaced, by whoever
	// needs it: a call, or a [Refresher]. The context that it returns, which has
	// to be made from the one given, is that of the refresh, with its calls of
	// the platform and of the store; nil means the one given.
	RefreshStart func(ctx context.Context, refresh Refresh) context.Context

	// RefreshEnd is called with that context when the refresh has ended.
	RefreshEnd func(ctx context.Context, result RefreshResult)
}

// Refresh says whose token is about to be replaced.
type Refresh struct {
	Key Key

	// Background is true where a [Refresher] does it.
	Background bool
}

// RefreshResult is a refresh that has ended.
type RefreshResult struct {
	Refresh

	// Outcome says how.
	Outcome RefreshOutcome

	// Duration is how long it took, the wait for other replicas and the work of
	// the store included.
	Duration time.Duration
}

// RefreshOutcome says in a word how a refresh ended.
type RefreshOutcome string

// The outcomes of a refresh.
const (
	RefreshDone          RefreshOutcome = "done"          // a new token is stored
	RefreshFound         RefreshOutcome = "found"         // another process had stored one
	RefreshReauthorize   RefreshOutcome = "reauthorize"   // the user has to authorize again
	RefreshFailed        RefreshOutcome = "failed"        // the platform or the network, for now
	RefreshStoreFailed   RefreshOutcome = "store_failed"  // the store: see StoreError
	RefreshMisconfigured RefreshOutcome = "misconfigured" // the platform refuses the application: see ConfigError
)

// observed carries a renewal out and tells the observers.
func (r *renewal) observed(ctx context.Context, run func(context.Context) (Record, error)) (Record, error) {
	observers := r.client.config.Observers
	if len(observers) == 0 {
		return run(ctx)
	}
	result := RefreshResult{Refresh: Refresh{Key: r.slot.key, Background: r.claim != nil}, Outcome: RefreshFailed}
	for _, o := range observers {
		if o.RefreshStart == nil {
			continue
		}
		r.client.guard(ctx, r.slot.key, "an observer", func() {
			if made := o.RefreshStart(ctx, result.Refresh); made != nil {
				ctx = made
			}
		})
	}
	began := time.Now()
	defer func() { // also where a store panics
		result.Duration = time.Since(began)
		for _, o := range slices.Backward(observers) {
			if o.RefreshEnd != nil {
				r.client.guard(ctx, r.slot.key, "an observer", func() { o.RefreshEnd(ctx, result) })
			}
		}
	}()
	record, err := run(ctx)
	result.Outcome = r.outcome(err)
	return record, err
}

// outcome says how the renewal ended.
func (r *renewal) outcome(err error) RefreshOutcome {
	var store *StoreError
	var refusal *ConfigError
	switch {
	case err == nil && r.asked:
		return RefreshDone
	case err == nil:
		return RefreshFound
	case needsUser(err):
		return RefreshReauthorize
	case errors.As(err, &store):
		return RefreshStoreFailed
	case errors.As(err, &refusal):
		return RefreshMisconfigured
	}
	return RefreshFailed
}
