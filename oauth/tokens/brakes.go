package tokens

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Waits of [brakes]. The API does not state any.
const (
	// After a temporary failure, the wait before the next refresh doubles from firstBackoff to
	// lastBackoff, or is a longer Retry-After of up to maxRetryAfter. It starts over
	// backoffMemory after the last wait.
	firstBackoff  = time.Second
	lastBackoff   = 30 * time.Second
	backoffMemory = time.Minute
	maxRetryAfter = 5 * time.Minute

	// A rejected refresh token is retried after firstRetry, and the second rejection marks the
	// user. The waits before the next retries for a marked user double up to lastRetry: each is
	// the time from the first to the last rejection in the record, and up to a quarter more.
	firstRetry = time.Minute
	lastRetry  = 8 * time.Minute

	// forcedPause is the shortest time between two refreshes of one user because of a 401.
	forcedPause = 2 * time.Minute

	// The token endpoint counts as failing if the refreshes of failingUsers different users
	// failed in a row, so one failing user delays no other user. A process then sends one
	// request every trialPause, or after a longer Retry-After.
	failingUsers = 5
	trialPause   = time.Second
	allMemory    = time.Hour

	// configPause is the pause after the platform has rejected the application.
	configPause = time.Minute

	// The alarm is raised if the platform rejects the refresh tokens of rejectedUsers different
	// users in a row within rejectionWindow. One user may have revoked the application, but many
	// at a time have another cause. KeepFresh then pauses for rejectionPause. Within alarmMemory
	// of the last alarm, no new alarm is raised.
	rejectedUsers   = 10
	rejectionWindow = 5 * time.Minute
	rejectionPause  = 15 * time.Minute
	alarmMemory     = 2 * rejectionPause
)

// brakeKind is what a brake delays.
type brakeKind int

const (
	userBrake        brakeKind = iota // the refreshes of one user, after a failure
	forceBrake                        // refreshes of one user because of a 401, after one
	endpointBrake                     // all refreshes, after failures
	applicationBrake                  // all refreshes, because the platform rejects the application
	backgroundBrake                   // KeepFresh, after rejections
)

// A brake engages after failures of so many different users in a row. It forgets them so long
// after the first failure or the last wait.
var brakeRules = [...]struct {
	users  int
	memory time.Duration
}{
	userBrake: {1, backoffMemory}, forceBrake: {1, 0}, endpointBrake: {failingUsers, allMemory},
	applicationBrake: {1, allMemory}, backgroundBrake: {rejectedUsers, rejectionWindow},
}

// brakeKey identifies a brake. key is zero if it concerns all users.
type brakeKey struct {
	kind brakeKind
	key  tokenstore.Key
}

// brake delays refreshes after consecutive failures.
type brake struct {
	err     error // of the last failure
	tries   int   // number of failures
	users   map[tokenstore.Key]bool
	engaged bool
	end     time.Time // of the wait if engaged, otherwise the time of the first failure
}

// active reports whether refreshes must wait.
func (b *brake) active() bool { return b != nil && b.engaged && time.Now().Before(b.end) }

// brakes contains the brakes with failures. It is safe for concurrent use.
type brakes struct {
	mu      sync.Mutex
	all     map[brakeKey]*brake
	alarmed time.Time
}

// pull counts a failure of a user and reports whether it engages the brake. From then on, each
// failure postpones the end. The caller has locked mu.
func (s *brakes) pull(at brakeKey, user tokenstore.Key, err error, wait func(tries int) time.Duration) (isNew bool) {
	b, rule := s.all[at], brakeRules[at.kind]
	if b == nil || time.Since(b.end) > rule.memory {
		b = &brake{users: map[tokenstore.Key]bool{}, end: time.Now()}
		s.all[at] = b
		s.expire(at, b)
	}
	b.tries++
	if !b.engaged {
		b.users[user] = true
		b.engaged = len(b.users) >= rule.users
		isNew = b.engaged
	}
	if b.engaged {
		b.err, b.end = err, time.Now().Add(wait(b.tries))
	}
	return isNew
}

// expire removes a brake when its failures are forgotten. The caller has locked mu.
func (s *brakes) expire(at brakeKey, b *brake) {
	time.AfterFunc(max(time.Until(b.end)+brakeRules[at.kind].memory, time.Second), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.all[at] != b:
		case time.Since(b.end) > brakeRules[at.kind].memory:
			delete(s.all, at)
		default:
			s.expire(at, b)
		}
	})
}

// until returns a wait that does not depend on the number of failures.
func until(wait time.Duration) func(int) time.Duration {
	return func(int) time.Duration { return wait }
}

// blocked returns the reason for not refreshing the user's token now, or nil.
func (s *brakes) blocked(key tokenstore.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.all[brakeKey{userBrake, key}]; b.active() {
		return b.err
	}
	return s.closedLocked()
}

// closed returns the reason for sending no request to the token endpoint now, or nil.
func (s *brakes) closed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closedLocked()
}

func (s *brakes) closedLocked() error {
	for _, kind := range []brakeKind{applicationBrake, endpointBrake} {
		if b := s.all[brakeKey{kind: kind}]; b.active() {
			return &endpointError{b.err}
		}
	}
	return nil
}

// admit returns nil if the caller may send a request to the token endpoint. If all refreshes
// are delayed, this request is the trial, and other callers wait for the next one.
func (s *brakes) admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closedLocked(); err != nil {
		return err
	}
	for _, kind := range []brakeKind{applicationBrake, endpointBrake} {
		if b := s.all[brakeKey{kind: kind}]; b != nil && b.engaged {
			b.end = time.Now().Add(trialPause)
		}
	}
	return nil
}

// responded records the result of a user's request to the token endpoint. If err pauses the
// refreshes of all users, it returns err and whether the pause is new.
func (s *brakes) responded(key tokenstore.Key, err error) (paused *oauth.ConfigError, isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rejection *oauth.ConfigError
	switch {
	case err == nil, isInvalidGrant(err): // the endpoint works: it responded about the refresh token
		delete(s.all, brakeKey{kind: endpointBrake})
		delete(s.all, brakeKey{kind: applicationBrake})
		if err == nil {
			delete(s.all, brakeKey{kind: backgroundBrake})
		}
	case errors.As(err, &rejection):
		delete(s.all, brakeKey{kind: endpointBrake})
		return rejection, s.pull(brakeKey{kind: applicationBrake}, key, rejection, until(configPause))
	case isOfEndpoint(err):
		s.pull(brakeKey{kind: endpointBrake}, key, err, until(max(trialPause, retryAfter(err))))
	}
	return nil, false
}

// isOfEndpoint reports whether a failure shows that the token endpoint does not work. A request
// that was not sent or was canceled shows nothing, and neither does a token of another owner.
func isOfEndpoint(err error) bool {
	var response *api.Error
	return errors.As(err, &response) && response.Attempts > 0 && !errors.Is(err, context.Canceled)
}

// rejected counts a user whose refresh token was rejected. alone reports whether no other user
// was rejected lately, alarm whether to raise the alarm, and end is the end of the pause.
func (s *brakes) rejected(key tokenstore.Key, err error) (alone, alarm bool, end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := brakeKey{kind: backgroundBrake}
	if s.pull(at, key, err, until(rejectionPause)) {
		alarm = time.Since(s.alarmed) > alarmMemory
		s.alarmed = time.Now()
	}
	b := s.all[at]
	return !b.engaged && len(b.users) == 1, alarm, b.end
}

// failed records a failed refresh of the user and returns the delay of the next one.
func (s *brakes) failed(key tokenstore.Key, err error) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pull(brakeKey{userBrake, key}, key, err, func(tries int) time.Duration {
		wait = max(jitter.Backoff(tries, firstBackoff, lastBackoff), retryAfter(err))
		if needsUser(err) || isInvalidGrant(err) {
			wait = firstRetry // the record has the waits after it
		}
		return wait
	})
	return wait
}

// mayForce reports whether a 401 may force a refresh of the user's token now.
func (s *brakes) mayForce(key tokenstore.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.all[brakeKey{forceBrake, key}].active()
}

// succeeded drops the failures of a user with a valid token. forced reports whether a 401
// forced the refresh.
func (s *brakes) succeeded(key tokenstore.Key, forced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, brakeKey{userBrake, key})
	if forced {
		s.pull(brakeKey{forceBrake, key}, key, nil, until(forcedPause))
	}
}

// forget drops the failures of a user who has reconnected or was restored.
func (s *brakes) forget(key tokenstore.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, brakeKey{userBrake, key})
	delete(s.all, brakeKey{forceBrake, key})
}

// failingNow counts the users with delayed refreshes.
func (s *brakes) failingNow() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, b := range s.all {
		if at.kind == userBrake && b.active() {
			n++
		}
	}
	return n
}

// pausedUntil returns the end of the pause of refreshes in the background.
func (s *brakes) pausedUntil() (end time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []brakeKind{applicationBrake, backgroundBrake} {
		if b := s.all[brakeKey{kind: kind}]; b != nil && b.engaged && b.end.After(end) {
			end = b.end
		}
	}
	return end
}

// retryAfter returns the Retry-After of the platform, up to maxRetryAfter.
func retryAfter(err error) time.Duration {
	var response *api.Error
	if !errors.As(err, &response) {
		return 0
	}
	return min(response.RetryAfter, maxRetryAfter)
}

// isInvalidGrant reports whether the platform rejected a refresh token as invalid. The status
// of the response does not matter.
func isInvalidGrant(err error) bool {
	var response *api.Error
	return errors.As(err, &response) && response.Code == "invalid_grant"
}

// endpointError is the error of a refresh that was not sent because the refreshes of other
// users failed.
type endpointError struct{ err error }

func (e *endpointError) Error() string {
	return "tokens: refreshes are paused: " + e.err.Error()
}

func (e *endpointError) Unwrap() error { return e.err }
