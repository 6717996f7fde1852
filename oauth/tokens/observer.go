package tokens

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// Observer observes refreshes of tokens, for traces and metrics, and what happens
// to users and to the application, for user interfaces and alarms. Any function
// may be nil. They are called by the goroutine that refreshes, calls or connects:
// they must return at once and be safe for concurrent use. The calls of the token
// endpoint have observers in [oauth.Config].
type Observer struct {
	// Event is called with what happened.
	Event func(ctx context.Context, event Event)

	// RefreshStart is called when a token is about to be replaced, for a call or by
	// [Connections.KeepFresh]. The context that it returns, which has
	// to be made from the one given, is that of the refresh, with its calls of
	// the platform and of the store; nil means the one given.
	RefreshStart func(ctx context.Context, refresh Refresh) context.Context

	// RefreshEnd is called with that context when the refresh has ended.
	RefreshEnd func(ctx context.Context, result RefreshResult)
}

// Refresh says whose token is about to be replaced.
type Refresh struct {
	Key Key

	// Background is true where [Connections.KeepFresh] does it.
	Background bool
}

// RefreshResult is a refresh that has ended.
type RefreshResult struct {
	Refresh

	// Outcome says how.
	Outcome Outcome

	// Duration is how long it took, the wait for other replicas and the work of
	// the store included.
	Duration time.Duration
}

// Outcome says in a word how a refresh ended.
type Outcome string

// The outcomes of a refresh.
const (
	OutcomeRefreshed     Outcome = "refreshed"     // a new token is stored
	OutcomeFound         Outcome = "found"         // another process had stored one
	OutcomeReauthorize   Outcome = "reauthorize"   // the user has to authorize again
	OutcomeFailed        Outcome = "failed"        // the platform or the network, for now
	OutcomeStoreFailed   Outcome = "store_failed"  // the store: see StoreError
	OutcomeMisconfigured Outcome = "misconfigured" // the platform refuses the application: see oauth.ConfigError
)

// hooks calls the observers and writes the log.
type hooks struct {
	observers []Observer
	logger    *slog.Logger
}

// log writes a record that names the user's key.
func (h *hooks) log(ctx context.Context, level slog.Level, message string, key Key, attrs ...slog.Attr) {
	h.logger.LogAttrs(ctx, level, "tokens: "+message,
		append(attrs, slog.String("environment", key.Environment.String()), slog.String("user", key.User))...)
}

// raise hands an event to the observers.
func (h *hooks) raise(ctx context.Context, event Event) {
	for _, o := range h.observers {
		if o.Event != nil {
			h.guard(ctx, event.Subject(), "an observer", func() { o.Event(ctx, event) })
		}
	}
}

// guard calls a function of the integrator's, whose panic must not end a refresh.
func (h *hooks) guard(ctx context.Context, key Key, name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			h.log(ctx, slog.LevelError, name+" panicked", key, slog.Any("error", panicked(v)))
		}
	}()
	call()
}

// observe runs a refresh between RefreshStart and RefreshEnd.
func (h *hooks) observe(ctx context.Context, refresh Refresh, run func(context.Context) (Record, Outcome, error)) (Record, error) {
	result := RefreshResult{Refresh: refresh, Outcome: OutcomeFailed}
	for _, o := range h.observers {
		if o.RefreshStart == nil {
			continue
		}
		h.guard(ctx, refresh.Key, "an observer", func() {
			if made := o.RefreshStart(ctx, refresh); made != nil {
				ctx = made
			}
		})
	}
	began := time.Now()
	defer func() { // also where a store panics
		result.Duration = time.Since(began)
		for _, o := range slices.Backward(h.observers) {
			if o.RefreshEnd != nil {
				h.guard(ctx, refresh.Key, "an observer", func() { o.RefreshEnd(ctx, result) })
			}
		}
	}()
	record, outcome, err := run(ctx)
	result.Outcome = outcome
	return record, err
}
