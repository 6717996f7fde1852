package tokens

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Observer observes refreshes, for traces and metrics, and what happens to users and to the
// application, for user interfaces and alarms. Any function may be nil. The goroutine that
// refreshes, calls or connects calls them: they must return at once and be safe for concurrent
// use. They receive no secret. The calls of the token endpoint have observers in
// [oauth.Config].
type Observer struct {
	// RefreshStart is called when a token is about to be replaced, for a call or by
	// [Connections.KeepFresh]. It returns the context of the refresh, with its calls of the
	// platform and of the store, which must be derived from its argument. Nil means the
	// argument itself.
	RefreshStart func(ctx context.Context, refresh Refresh) context.Context

	// RefreshEnd is called with that context when the refresh has ended.
	RefreshEnd func(ctx context.Context, refresh Refresh)

	// Connected is called when a user has authorized the application and the token is stored.
	Connected func(ctx context.Context, grant Authorization)

	// Disconnected is called when [Connections.Disconnect] has revoked and deleted the token.
	Disconnected func(ctx context.Context, key tokenstore.Key)

	// MustReauthorize is called when a user is marked, once, by the replica that marks, and
	// not by every call that meets the mark.
	MustReauthorize func(ctx context.Context, mark *ReauthorizeError)

	// Restored is called when a mark does not hold any more, although the user did nothing:
	// the platform accepted the refresh token after all, or [Connections.Restore] was called.
	Restored func(ctx context.Context, key tokenstore.Key)

	// CommitDelayed is called once for a pair that the store does not accept. The pair lives
	// in this process only until it does: do not end the process. See
	// [Connections.PendingCommits].
	CommitDelayed func(ctx context.Context, delayed CommitDelayed)

	// MassRejection and ConfigErrorDetected are alarms.
	MassRejection       func(ctx context.Context, alarm MassRejection)
	ConfigErrorDetected func(ctx context.Context, alarm ConfigErrorDetected)
}

// Refresh is the replacement of a user's token.
type Refresh struct {
	Key tokenstore.Key

	// Background is true where [Connections.KeepFresh] does it.
	Background bool

	// Outcome is the result. It is empty at the start.
	Outcome Outcome

	// Duration is how long it took, the wait for other replicas and the work of
	// the store included. It is 0 at the start.
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
func (h *hooks) log(ctx context.Context, level slog.Level, message string, key tokenstore.Key, attrs ...slog.Attr) {
	h.logger.LogAttrs(ctx, level, "tokens: "+message,
		append(attrs, slog.String("environment", key.Environment.String()), slog.String("user", key.User))...)
}

// notify calls a function of every observer that has it.
func notify[T any](ctx context.Context, h *hooks, key tokenstore.Key, of func(*Observer) func(context.Context, T), value T) {
	for i := range h.observers {
		if observe := of(&h.observers[i]); observe != nil {
			h.guard(ctx, key, "an observer", func() { observe(ctx, value) })
		}
	}
}

// guard calls a function of the integrator's, whose panic must not end a refresh.
func (h *hooks) guard(ctx context.Context, key tokenstore.Key, name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			h.log(ctx, slog.LevelError, name+" panicked", key, slog.Any("error", panicked(v)))
		}
	}()
	call()
}

// observe runs a refresh between RefreshStart and RefreshEnd.
func (h *hooks) observe(ctx context.Context, refresh Refresh, run func(context.Context) (tokenstore.Record, Outcome, error)) (tokenstore.Record, error) {
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
	refresh.Outcome = OutcomeFailed
	defer func() { // also where a store panics
		refresh.Duration = time.Since(began)
		for _, o := range slices.Backward(h.observers) {
			if o.RefreshEnd != nil {
				h.guard(ctx, refresh.Key, "an observer", func() { o.RefreshEnd(ctx, refresh) })
			}
		}
	}()
	record, outcome, err := run(ctx)
	refresh.Outcome = outcome
	return record, err
}

// CommitDelayed describes a token pair that the store does not accept.
type CommitDelayed struct {
	Key tokenstore.Key

	// Err is the [*StoreError] of the first try.
	Err error
}

// MassRejection is an alarm: the platform rejected the refresh tokens of 10 users in a row
// within 5 minutes. Most likely scopes were added to the application, which ends all earlier
// tokens: check the dashboard, and put the scopes into the Scopes of [oauth.Config], so that
// users who must authorize again are known without a request.
//
// Refreshing in the background pauses for 15 minutes after the last rejection. Calls are not
// held back: a user is marked by the second rejection. The alarm is not repeated within 30
// minutes. Each process raises its own.
type MassRejection struct {
	Environment api.Environment

	// Users were rejected within Window.
	Users  int
	Window time.Duration

	// Until is when the pause ends.
	Until time.Time
}

// ConfigErrorDetected is an alarm: the platform refuses the application itself. No user
// is marked, and no refresh is tried until Until. Then one is, and every other user waits for
// its result. The alarm is raised once, until a refresh works again.
type ConfigErrorDetected struct {
	Err   *oauth.ConfigError
	Until time.Time
}
