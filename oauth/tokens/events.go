package tokens

import (
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

// Event is something that happened to a user's connection or to the application,
// for the integrator's user interface and alarms: [Connected], [Disconnected],
// [Refreshed], [MustReauthorize], [Restored], [CommitDelayed], [BreakerTripped] or
// [ConfigErrorDetected]. [Observer.Event] receives them; use a type switch, and
// ignore types that you do not know. None holds a secret.
type Event interface {
	// Subject returns the key of the user it is about. User is empty where
	// it is about the application in an environment.
	Subject() Key
}

// Connected says that a user authorized the application and that the token is
// stored. [Connections.Connect] raises it.
type Connected struct {
	Key Key

	// Owner is whom the token acts for, Previous the owner of the token that
	// was stored before, zero if there was none. Where they differ the user has
	// taken another account of the platform.
	Owner, Previous oauth.ResourceOwner

	// Scopes are the granted scopes.
	Scopes []string
}

// Disconnected says that a user's token was revoked and deleted by
// [Connections.Disconnect].
type Disconnected struct{ Key Key }

// Refreshed says that a new token of a user is stored. Replicas that have the previous
// one in memory use it for up to 30 seconds, or until it expires or is rejected.
type Refreshed struct {
	Key Key

	// ExpiresAt is the end of the new access token; see [oauth.Token].
	ExpiresAt time.Time

	// Background is true where [Connections.KeepFresh] did it, false where a call did.
	Background bool
}

// MustReauthorize says that a user was found to have to authorize again. It is
// raised when the user is marked, once, by the replica that marks, and not by
// every call that meets the mark.
type MustReauthorize struct {
	Key    Key
	Reason Reason

	// Owner is whom the last token acted for.
	Owner oauth.ResourceOwner
}

// Restored says that a [MustReauthorize] does not hold any more, although the user
// did nothing: the platform took the refresh token again after all, or
// [Connections.Restore] was called.
type Restored struct{ Key Key }

// CommitDelayed says that the store does not take a refreshed token pair, which
// lives in this process only until it does: do not end the process. It is
// raised once a pair; a [Refreshed] follows when the pair is stored.
type CommitDelayed struct {
	Key Key

	// Err is the [*StoreError] of the first try.
	Err error
}

// BreakerTripped is an alarm: the platform rejected the refresh tokens of 10 users in a row
// within 5 minutes. Most likely scopes were added to the application, which ends all earlier
// tokens: check the dashboard, and put the scopes into the Scopes of [oauth.Config], so that
// users who must authorize again are known without a request.
//
// Refreshing in the background pauses for 15 minutes after the last rejection. Calls are not
// held back: a user is marked by the second rejection. The alarm is not repeated within 30
// minutes. Each process raises its own.
type BreakerTripped struct {
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
func (e CommitDelayed) Subject() Key { return e.Key }

// Subject returns the environment, and no user.
func (e BreakerTripped) Subject() Key { return Key{Environment: e.Environment} }

// Subject returns the environment, and no user.
func (e ConfigErrorDetected) Subject() Key { return Key{Environment: e.Err.Environment} }
