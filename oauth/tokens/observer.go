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

// Observer observes refreshes, for traces and metrics, and the changes of users and of the
// application, for user interfaces and alarms. Any function may be nil. The goroutine that
// refreshes, calls or connects runs the functions. They must return at once and be safe for
// concurrent use. They receive no secret. For the calls of the token endpoint, use the
// observers of [oauth.Config].
type Observer struct {
	// RefreshStart is called before a token is refreshed, for a call or by
	// [Connections.KeepFresh]. It returns the context of the refresh and of its calls of the
	// platform and the store. Derive it from the argument. Nil means the argument itself.
	RefreshStart func(ctx context.Context, refresh Refresh) context.Context

	// RefreshEnd is called with that context when the refresh has ended.
	RefreshEnd func(ctx context.Context, refresh Refresh)

	// Connected is called when a user has authorized the application and the token is stored.
	Connected func(ctx context.Context, grant Authorization)

	// Disconnected is called when [Connections.Disconnect] has revoked and deleted the token.
	Disconnected func(ctx context.Context, key tokenstore.Key)

	// MustReauthorize is called once for each mark of a user, by the replica that marks the
	// user. Calls of a marked user do not repeat it.
	MustReauthorize func(ctx context.Context, mark *ReauthorizeError)

	// Restored is called when a mark is removed without an action of the user: the platform
	// accepted the refresh token, or [Connections.Restore] was called.
	Restored func(ctx context.Context, key tokenstore.Key)

	// CommitDelayed is called once for a token pair that the store does not accept. Until the
	// store accepts it, the pair is only in this process: do not end the process. See
	// [Connections.PendingCommits].
	CommitDelayed func(ctx context.Context, delayed CommitDelayed)

	// MassRejection and ConfigErrorDetected are alarms.
	MassRejection       func(ctx context.Context, alarm MassRejection)
	ConfigErrorDetected func(ctx context.Context, alarm ConfigErrorDetected)
}

// Refresh describes the refresh of a user's token.
type Refresh struct {
	Key tokenstore.Key

	// Background is true for a refresh by [Connections.KeepFresh].
	Background bool

	// Outcome is the result. It is empty at the start.
	Outcome Outcome

	// Duration is the duration of the refresh, including the wait for other replicas and the
	// work of the store. It is 0 at the start.
	Duration time.Duration
}

// Outcome is the result of a refresh in one word.
type Outcome string

// The outcomes of a refresh.
const (
	OutcomeRefreshed     Outcome = "refreshed"     // a new token is stored
	OutcomeFound         Outcome = "found"         // another process had already stored one
	OutcomeReauthorize   Outcome = "reauthorize"   // the user must authorize again
	OutcomeFailed        Outcome = "failed"        // the platform or the network failed temporarily
	OutcomeStoreFailed   Outcome = "store_failed"  // the store failed: see StoreError
	OutcomeMisconfigured Outcome = "misconfigured" // the platform rejects the application: see oauth.ConfigError
)

// hooks calls the observers and writes the log.
type hooks struct {
	observers []Observer
	logger    *slog.Logger
}

// log writes a log record with the environment and the user of key.
func (h *hooks) log(ctx context.Context, level slog.Level, message string, key tokenstore.Key, attrs ...slog.Attr) {
	h.logger.LogAttrs(ctx, level, "tokens: "+message,
		append(attrs, slog.String("environment", key.Environment.String()), slog.String("user", key.User))...)
}

// notify calls one function of every observer, unless it is nil.
func notify[T any](ctx context.Context, h *hooks, key tokenstore.Key, of func(*Observer) func(context.Context, T), value T) {
	for i := range h.observers {
		if observe := of(&h.observers[i]); observe != nil {
			h.guard(ctx, key, "an observer", func() { observe(ctx, value) })
		}
	}
}

// guard calls a function of your program. A panic of the function must not end a refresh.
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
	defer func() { // even if a store panics
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

	// Err is the [*StoreError] of the first attempt.
	Err error
}

// MassRejection is an alarm: the platform rejected the refresh tokens of 10 users in a row
// within 5 minutes. The most likely cause is a scope added to the application, because this
// invalidates all earlier tokens. Check the dashboard, and add the scopes to Scopes of
// [oauth.Config]. The library then knows, without a request, which users must authorize again.
//
// Refreshes in the background pause for 15 minutes after the last rejection. Calls are not
// paused: the second rejection marks a user. The alarm is not repeated within 30 minutes. Each
// process raises its own.
type MassRejection struct {
	Environment api.Environment

	// Users is the number of users rejected within Window.
	Users  int
	Window time.Duration

	// Until is the end of the pause.
	Until time.Time
}

// ConfigErrorDetected is an alarm: the platform rejects the application itself. No user is
// marked, and no refresh is sent before Until. Then one refresh is sent, and every other user
// waits for its result. The alarm is raised once, until a refresh succeeds again.
type ConfigErrorDetected struct {
	Err   *oauth.ConfigError
	Until time.Time
}
