package tokens

import (
	"errors"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Waits of a [circuit]. The API does not state any.
const (
	// After a temporary failure, the wait before the next refresh doubles from firstBackoff to
	// lastBackoff, or is a longer Retry-After of up to maxRetryAfter. It starts over
	// backoffMemory after the last wait.
	firstBackoff  = time.Second
	lastBackoff   = 30 * time.Second
	backoffMemory = time.Minute
	maxRetryAfter = 5 * time.Minute

	// A rejected refresh token is retried after firstRetry, and the second rejection marks the
	// user. The waits before the next retries for a marked user double up to lastRetry. No
	// replica retries sooner than firstRetry after the last attempt.
	firstRetry = time.Minute
	lastRetry  = 10 * time.Minute

	// userMemory is the time for which the failures of a user are kept.
	userMemory = time.Hour

	// forcedPause is the shortest time between two refreshes of one user because of a 401.
	forcedPause = 2 * time.Minute

	// The token endpoint counts as failing if the refreshes of failingUsers different users
	// failed in a row, so one failing user delays no other user. A process then sends one
	// request every trialPause, or after a longer Retry-After.
	failingUsers = 5
	trialPause   = time.Second

	// configPause is the pause after the platform has rejected the application.
	configPause = time.Minute

	// The alarm is raised if the platform rejects the refresh tokens of refusedUsers different
	// users in a row within refusalWindow. One user may have revoked the application, but many
	// at a time have another cause. KeepFresh then pauses for refusalPause. Within alarmMemory
	// of the last alarm, no new alarm is raised.
	refusedUsers  = 10
	refusalWindow = 5 * time.Minute
	refusalPause  = 15 * time.Minute
	alarmMemory   = 2 * refusalPause
)

// circuit delays refreshes after failures: the refreshes of one user, or of all users if the
// token endpoint fails or rejects the application. It is safe for concurrent use.
type circuit struct {
	mu    sync.Mutex
	users map[tokenstore.Key]*backoff

	endpoint, application trouble // delay all refreshes
	grants                trouble // delays KeepFresh
	alarmed               time.Time
}

func newCircuit() circuit {
	return circuit{
		users: map[tokenstore.Key]*backoff{}, endpoint: trouble{limit: failingUsers}, application: trouble{limit: 1}, grants: trouble{limit: refusedUsers, window: refusalWindow},
	}
}

// backoff contains the consecutive failures of one user.
type backoff struct {
	err      error
	failures int // not caused by the user
	refusals int // of the refresh token
	until    time.Time
	forced   time.Time // the last successful refresh forced by a 401
}

// trouble contains the consecutive failures of different users.
type trouble struct {
	limit  int           // number of failing users that counts as trouble
	window time.Duration // period within which limit users must fail, 0 for any period

	err   error
	users map[tokenstore.Key]bool
	began time.Time
	until time.Time // the next trial
}

// add counts a failure and reports whether it reaches the limit. From then on, each failure
// postpones the next trial.
func (t *trouble) add(key tokenstore.Key, err error, pause time.Duration) (isNew bool) {
	now := time.Now()
	before := t.open()
	last := t.began
	if before {
		last = t.until
	}
	if t.window > 0 && now.Sub(last) > t.window {
		t.users, before = nil, false
	}
	if len(t.users) == 0 {
		t.users, t.began = map[tokenstore.Key]bool{}, now
	}
	if !before {
		t.users[key] = true
	}
	if t.open() {
		t.err, t.until = err, now.Add(pause)
	}
	return t.open() && !before
}

func (t *trouble) open() bool { return len(t.users) >= t.limit }
func (t *trouble) clear()     { t.users = nil }

// pausedUntil returns the time of the next trial, or zero if there is no trouble.
func (t *trouble) pausedUntil() time.Time {
	if t.open() {
		return t.until
	}
	return time.Time{}
}

// blocked returns the reason for not refreshing the user's token now, or nil.
func (c *circuit) blocked(key tokenstore.Key) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.users[key]; ok && time.Now().Before(b.until) {
		return b.err
	}
	return c.closedLocked()
}

// closed returns the reason for sending no request to the token endpoint now, or nil.
func (c *circuit) closed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closedLocked()
}

func (c *circuit) closedLocked() error {
	for _, t := range []*trouble{&c.application, &c.endpoint} {
		if time.Now().Before(t.pausedUntil()) {
			return &endpointError{t.err}
		}
	}
	return nil
}

// admit returns nil if the caller may send a request to the token endpoint. If the endpoint is
// in trouble, this request is the trial, and other callers wait for the next one.
func (c *circuit) admit() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.closedLocked(); err != nil {
		return err
	}
	for _, t := range []*trouble{&c.application, &c.endpoint} {
		t.until = time.Now().Add(trialPause)
	}
	return nil
}

// answered records the result of a user's request to the token endpoint. If err pauses the
// refreshes of all users, it returns err and whether the pause is new.
func (c *circuit) answered(key tokenstore.Key, err error) (paused *oauth.ConfigError, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var refusal *oauth.ConfigError
	switch {
	case err == nil, isInvalidGrant(err): // the endpoint works: it responded about the refresh token
		c.endpoint.clear()
		c.application.clear()
		if err == nil {
			c.grants.clear()
		}
	case errors.As(err, &refusal):
		c.endpoint.clear()
		return refusal, c.application.add(key, refusal, configPause)
	default:
		c.endpoint.add(key, err, max(trialPause, retryAfter(err)))
	}
	return nil, false
}

// refused counts a user whose refresh token was rejected. alarm reports whether to raise the
// alarm, and until is the end of the pause.
func (c *circuit) refused(key tokenstore.Key, err error) (alarm bool, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grants.add(key, err, refusalPause) {
		alarm = time.Since(c.alarmed) > alarmMemory
		c.alarmed = time.Now()
	}
	return alarm, c.grants.until
}

// failed records a failed refresh of the user and returns the delay of the next one.
func (c *circuit) failed(key tokenstore.Key, err error) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.of(key)
	if time.Since(b.until) > backoffMemory {
		b.failures = 0
	}
	var wait time.Duration
	if needsUser(err) || isInvalidGrant(err) {
		b.refusals++
		wait = max(firstRetry, jitteredBackoff(b.refusals, firstRetry, lastRetry))
	} else {
		b.failures++
		wait = max(jitteredBackoff(b.failures, firstBackoff, lastBackoff), retryAfter(err))
	}
	b.err, b.until = err, time.Now().Add(wait)
	c.keep(key, b)
	return wait
}

// of returns a copy of the user's failures.
func (c *circuit) of(key tokenstore.Key) *backoff {
	if b, ok := c.users[key]; ok {
		next := *b
		return &next
	}
	return &backoff{}
}

// keep stores the failures of a user. Entries remove themselves after userMemory. The caller
// has locked mu.
func (c *circuit) keep(key tokenstore.Key, b *backoff) {
	c.users[key] = b
	time.AfterFunc(userMemory, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users[key] == b { // no later failure has replaced it
			delete(c.users, key)
		}
	})
}

// mayForce reports whether a 401 may force a refresh of the user's token now.
func (c *circuit) mayForce(key tokenstore.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.users[key]
	return !ok || time.Since(b.forced) >= forcedPause
}

// succeeded drops the failures of a user with a valid token. forced reports whether a 401
// forced the refresh.
func (c *circuit) succeeded(key tokenstore.Key, forced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &backoff{forced: c.of(key).forced}
	if forced {
		b.forced = time.Now()
	}
	if time.Since(b.forced) < forcedPause {
		c.keep(key, b)
	} else {
		delete(c.users, key)
	}
}

// forget drops the failures of a user who has reconnected or was restored.
func (c *circuit) forget(key tokenstore.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, key)
}

// failingNow counts the users with delayed refreshes.
func (c *circuit) failingNow() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, b := range c.users {
		if now.Before(b.until) {
			n++
		}
	}
	return n
}

// pausedUntil returns the end of the pause of refreshes in the background.
func (c *circuit) pausedUntil() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if until := c.application.pausedUntil(); until.After(c.grants.pausedUntil()) {
		return until
	}
	return c.grants.pausedUntil()
}

// jitteredBackoff returns a wait that doubles from first to last with each try, counted from
// 1. The second half of the wait is random, so that replicas do not retry at the same time.
func jitteredBackoff(try int, first, last time.Duration) time.Duration {
	wait := last
	if doublings := try - 1; doublings < 20 && first<<doublings < last {
		wait = first << doublings
	}
	return wait/2 + jitter.N(wait/2)
}

// retryAfter returns the Retry-After of the platform, up to maxRetryAfter.
func retryAfter(err error) time.Duration {
	var answer *api.Error
	if !errors.As(err, &answer) {
		return 0
	}
	return min(answer.RetryAfter, maxRetryAfter)
}

// isInvalidGrant reports whether the platform rejected a refresh token as invalid. The status
// of the response does not matter.
func isInvalidGrant(err error) bool {
	var answer *api.Error
	return errors.As(err, &answer) && answer.Code == "invalid_grant"
}

// endpointError is the error of a refresh that was not sent because the refreshes of other
// users failed.
type endpointError struct{ err error }

func (e *endpointError) Error() string {
	return "tokens: refreshes are paused: " + e.err.Error()
}

func (e *endpointError) Unwrap() error { return e.err }
