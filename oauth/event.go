package oauth

import (
	"context"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Event is something that happened to a user's connection or to the application,
// for the integrator's user interface and alarms: [Connected], [Disconnected],
// [Refreshed], [MustReauthorize], [Restored], [Unwritten], [BreakerTripped] or
// [ConfigFault]. [Config.OnEvent] receives them; tell them apart with a type
// switch, and ignore what you do not know. None holds a secret.
type Event interface {
	// Subject returns the key of the user whom it is about. User is empty where
	// it is about the application in an environment.
	Subject() Key
}

// Connected tells that a user authorized the application and that the token is
// stored. [Client.Connect] and [Handler] raise it; who saves tokens on their own
// knows without.
type Connected struct {
	Key Key

	// Owner is whom the token acts for, Previous the owner of the token that
	// was stored before, zero if there was none. Where they differ the user has
	// taken another account of the platform.
	Owner, Previous ResourceOwner

	// Scopes are the granted scopes.
	Scopes []string
}

// Disconnected tells that a user's token was revoked and forgotten by
// [Client.Disconnect].
type Disconnected struct{ Key Key }

// Refreshed tells that a new token of a user is stored. Sources that still hold
// the one before go on with it until it ends or is refused.
type Refreshed struct {
	Key Key

	// ExpiresAt is the end of the new access token; see [Token].
	ExpiresAt time.Time

	// Background is true where a [Refresher] did it, false where a call did.
	Background bool
}

// MustReauthorize tells that a user was found to have to authorize again. It is
// raised when the user is marked, once and by the replica that marks, and not by
// every call that meets the mark.
type MustReauthorize struct {
	Key    Key
	Reason Reason

	// Owner is whom the last token acted for.
	Owner ResourceOwner
}

// Restored tells that a [MustReauthorize] does not hold any more, although the user
// did nothing: the platform took the refresh token again after all, or
// [Client.Restore] was called.
type Restored struct{ Key Key }

// Unwritten tells that the store does not take a refreshed token pair, which
// lives in this process only until it does: do not end the process. It is
// raised once a pair; a [Refreshed] follows when the pair is stored.
type Unwritten struct {
	Key Key

	// Err is the [*StoreError] of the first try.
	Err error
}

// BreakerTripped is an alarm: the platform refuses the refresh tokens of one
// user after another. Most likely scopes were added to the application, which
// ends all tokens from before: look into the dashboard. Refreshing in the
// background pauses, and nobody else is marked. See [BreakerPolicy].
type BreakerTripped struct {
	Environment api.Environment

	// Users were refused within Window.
	Users  int
	Window time.Duration

	// Until is when the pause ends.
	Until time.Time
}

// ConfigFault is an alarm: the platform refuses the application itself. No user
// is marked, and no refresh is tried until Until; then one is, from time to time.
// The alarm is raised once, until a refresh works again.
type ConfigFault struct {
	Err   *ConfigError
	Until time.Time
}

// Subject returns the user's key.
func (e Connected) Subject() Key { return e.Key }

// Subject returns the user's key.
func (e Disconnected) Subject() Key { return e.Key }

// Subject returns the user's key.
func (e Refreshed) Subject() Key { return e.Key }

// Subject returns the user's key.
func (e MustReauthorize) Subject() Key { return e.Key }

// Subject returns the user's key.
func (e Restored) Subject() Key { return e.Key }

// Subject returns the user's key.
func (e Unwritten) Subject() Key { return e.Key }

// Subject returns the environment, and no user.
func (e BreakerTripped) Subject() Key { return Key{Environment: e.Environment} }

// Subject returns the environment, and no user.
func (e ConfigFault) Subject() Key { return Key{Environment: e.Err.Environment} }

// notify hands an event to the integrator's hook.
func (c *Client) notify(ctx context.Context, event Event) {
	if c.config.OnEvent != nil {
		c.guard(ctx, event.Subject(), "OnEvent", func() { c.config.OnEvent(ctx, event) })
	}
}

// guard calls a function of the integrator's, which must not take a refresh with it
// when it panics.
func (c *Client) guard(ctx context.Context, key Key, name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			c.log(ctx, slog.LevelError, name+" panicked", key, slog.Any("error", panicked(v)))
		}
	}()
	call()
}
