package tokens

import (
	"errors"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
)

// Waits of a [circuit]. The API states none.
const (
	// A refresh of one user that failed for the moment is tried again after a wait
	// that doubles from the first to the last; a Retry-After goes before it, up to
	// its cap. A failure still counts for backoffMemory after its wait.
	firstBackoff  = time.Second
	lastBackoff   = 30 * time.Second
	backoffMemory = time.Minute
	maxRetryAfter = 5 * time.Minute

	// The refresh token of a marked user is tried again after firstRetry, by
	// any replica, and then after waits that double.
	firstRetry = time.Minute
	lastRetry  = time.Hour

	// configPause is how long the token endpoint is not asked after it refused the
	// application.
	configPause = time.Minute

	// suspectWindow is how soon a second user has to meet a refusal that one user's refresh
	// token may have caused, until it counts as the application's.
	suspectWindow = 5 * time.Minute

	// failingUsers is how many different users' refreshes have to fail in a row until the
	// token endpoint counts as failing: one user's failures hold no other user back. A
	// process then asks it once every trialEvery, or when it asked to come back.
	failingUsers = 5
	trialEvery   = time.Second
)

// circuit holds refreshes back after failures: of one user, of a user who was marked, and of
// the token endpoint, which may fail for all users or refuse the application. Its breaker
// notices that so many refresh tokens are refused that it may be the platform's mistake. It is
// safe for concurrent use.
type circuit struct {
	mu sync.Mutex

	users  map[Key]*backoff // whose last refresh failed for the moment
	marked map[Key]*backoff // marked users whose refresh token was refused again

	failing   map[Key]struct{}   // users whose refreshes failed in a row at the endpoint
	refusal   *oauth.ConfigError // nil while the application is accepted
	err       error              // the last failure or refusal
	nextTrial time.Time          // until then an endpoint that fails or refuses is not asked

	suspect     Key // who last met what may be the fault of one user
	suspectedAt time.Time

	breaker breaker
}

// backoff is a user's failures in a row.
type backoff struct {
	err      error
	failures int
	until    time.Time
}

// blocked returns why a refresh of the user is not to be tried now, or nil.
func (c *circuit) blocked(key Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.users[key]; ok && time.Now().Before(b.until) {
		return b.err
	}
	return c.closedLocked()
}

// closed returns why the token endpoint is not to be asked now, or nil.
func (c *circuit) closed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closedLocked()
}

func (c *circuit) closedLocked() error {
	if c.troubled() && time.Now().Before(c.nextTrial) {
		return &endpointError{c.err}
	}
	return nil
}

func (c *circuit) troubled() bool { return c.refusal != nil || len(c.failing) >= failingUsers }

// admit returns why the token endpoint must not be asked, or nil: then the caller
// asks it, and while it fails or refuses others wait for the next trial.
func (c *circuit) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.closedLocked(); err != nil {
		return err
	}
	if c.troubled() {
		c.nextTrial = time.Now().Add(trialEvery)
	}
	return nil
}

// answered records how a request of the user to the token endpoint ended. It
// returns the error that pauses refreshing for all users, if this one does, and
// whether that is new.
func (c *circuit) answered(key Key, err error) (paused *oauth.ConfigError, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal *oauth.ConfigError
	switch {
	case err == nil, isInvalidGrant(err): // a response about the refresh token
		c.accept()
		c.failing = nil
		return nil, false
	case errors.As(err, &refusal):
		c.failing = nil
		return c.recordConfigError(key, refusal)
	}
	if c.failing == nil {
		c.failing = map[Key]struct{}{}
	}
	if len(c.failing) < failingUsers {
		c.failing[key] = struct{}{}
	}
	c.err, c.nextTrial = err, time.Now().Add(max(trialEvery, retryAfter(err)))
	return nil, false
}

// accept forgets that the application was refused.
func (c *circuit) accept() { c.refusal, c.suspect = nil, Key{} }

// recordConfigError pauses refreshing for all users, unless a single user's refresh
// token may have caused the refusal: RFC 6749 has the same codes for a malformed
// one, and a bare 401 may mean anything.
func (c *circuit) recordConfigError(key Key, refusal *oauth.ConfigError) (paused *oauth.ConfigError, isNew bool) {
	now := time.Now()
	switch refusal.Code {
	case "", "invalid_request", "invalid_scope":
		confirmed := c.suspect != (Key{}) && c.suspect != key && now.Sub(c.suspectedAt) < suspectWindow
		c.suspect, c.suspectedAt = key, now
		if !confirmed {
			return nil, false
		}
	}
	isNew = c.refusal == nil
	c.refusal, c.err, c.nextTrial = refusal, refusal, now.Add(configPause)
	return refusal, isNew
}

// failed records a refresh of the user that failed for the moment and returns for
// how long it blocks.
func (c *circuit) failed(key Key, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extend(&c.users, key, err, firstBackoff, lastBackoff, backoffMemory)
}

// markedFailed records that the refresh token of a marked user was refused again.
func (c *circuit) markedFailed(key Key, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extend(&c.marked, key, err, firstRetry, lastRetry, lastRetry)
}

// extend adds a failure to those of a user. Entries remove themselves.
func (c *circuit) extend(users *map[Key]*backoff, key Key, err error, first, last, memory time.Duration) time.Duration {
	if *users == nil {
		*users = map[Key]*backoff{}
	}
	b := &backoff{err: err, failures: 1}
	if before, ok := (*users)[key]; ok {
		b.failures += before.failures
	}
	wait := max(jitteredBackoff(b.failures, first, last), retryAfter(err))
	var unmarked *unmarkedError
	if errors.As(err, &unmarked) {
		wait = max(wait, min(time.Until(unmarked.until), maxRetryAfter))
	}
	b.until = time.Now().Add(wait)
	(*users)[key] = b
	time.AfterFunc(wait+memory, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if (*users)[key] == b { // no later failure has replaced it
			delete(*users, key)
		}
	})
	return wait
}

// clear forgets the failures of a user for the moment.
func (c *circuit) clear(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, key)
}

// clearAll forgets all failures of a user, whose token is good.
func (c *circuit) clearAll(key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, key)
	delete(c.marked, key)
}

// mayRetryMarked reports whether the refresh token of a marked user may be tried
// again.
func (c *circuit) mayRetryMarked(key Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.marked[key]
	return !ok || !time.Now().Before(b.until)
}

// failingNow counts the users whose refresh failed lately.
func (c *circuit) failingNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.users)
}

// recordInvalidGrant counts a user whose refresh token was refused.
func (c *circuit) recordInvalidGrant(key Key) (trip trip, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.breaker.recordRefusal(key), c.breaker.until
}

// recordRefreshed counts a refresh that worked.
func (c *circuit) recordRefreshed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breaker.recordSuccess()
}

// pausedUntil returns until when refreshing in the background pauses.
func (c *circuit) pausedUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusal != nil && c.nextTrial.After(c.breaker.until) {
		return c.nextTrial
	}
	return c.breaker.until
}

// jitteredBackoff returns a wait that doubles from first to last with the number of
// the try, counted from 1; the second half of it is random, so that replicas do not
// come at the same time.
func jitteredBackoff(try int, first, last time.Duration) time.Duration {
	wait := last
	if doublings := try - 1; doublings < 20 && first<<doublings < last {
		wait = first << doublings
	}
	return wait/2 + jitter.N(wait/2)
}

// retryAfter returns how long the platform asked to stay away, up to a cap.
func retryAfter(err error) time.Duration {
	var answer *api.Error
	if !errors.As(err, &answer) {
		return 0
	}
	return min(answer.RetryAfter, maxRetryAfter)
}

// isInvalidGrant reports the platform's word that a refresh token is no longer
// good. The status it comes with does not matter.
func isInvalidGrant(err error) bool {
	var answer *api.Error
	return errors.As(err, &answer) && answer.Code == "invalid_grant"
}

// endpointError is the failure of other users' refreshes, because of which this one
// was not tried.
type endpointError struct{ err error }

func (e *endpointError) Error() string {
	return "tokens: no refresh is tried for now: " + e.err.Error()
}

func (e *endpointError) Unwrap() error { return e.err }

// unmarkedError is a refused refresh token that may not be the user's doing.
type unmarkedError struct {
	key   Key
	until time.Time // when the breaker closes
	err   error
}

func (e *unmarkedError) Error() string {
	return "tokens: the refresh token of " + e.key.String() + " was refused, and those of many others: no user is marked for now: " + e.err.Error()
}

func (e *unmarkedError) Unwrap() error { return e.err }
