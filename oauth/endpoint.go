package oauth

import (
	"errors"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

const (
	// failingUsers is how many different users' refreshes have to fail for the
	// moment, with none in between that did not, until the token endpoint counts as
	// failing: one user's trouble holds nobody back.
	failingUsers = 5

	// trialEvery is how often a process asks a failing endpoint, on behalf of whoever
	// comes; if the endpoint named a time to stay away, it is that.
	trialEvery = time.Second
)

// endpoint remembers how the token endpoint does. While it fails it is not asked by
// every user's call: a thousand users would keep it from coming back.
type endpoint struct {
	mu    sync.Mutex
	users map[Key]struct{} // whose refreshes failed in a row
	err   error            // the last failure
	next  time.Time        // earliest next trial
}

// failing returns why the endpoint is not to be asked now, or nil.
func (e *endpoint) failing() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.users) >= failingUsers && time.Now().Before(e.next) {
		return &failingError{e.err}
	}
	return nil
}

// ask is failing for who asks if it is nil: others wait for their turn.
func (e *endpoint) ask() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.users) < failingUsers {
		return nil
	}
	now := time.Now()
	if now.Before(e.next) {
		return &failingError{e.err}
	}
	e.next = now.Add(trialEvery)
	return nil
}

// note remembers how a refresh ended at the endpoint. What the platform says of a
// refresh token, or of the application, is an answer.
func (e *endpoint) note(user Key, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var refusal *ConfigError
	if err == nil || isInvalidGrant(err) || errors.As(err, &refusal) {
		e.users, e.err = nil, nil
		return
	}
	if e.users == nil {
		e.users = map[Key]struct{}{}
	}
	if len(e.users) < failingUsers {
		e.users[user] = struct{}{}
	}
	wait := trialEvery
	var answer *api.Error
	if errors.As(err, &answer) {
		wait = max(wait, min(answer.RetryAfter, maxRetryAfter))
	}
	e.err, e.next = err, time.Now().Add(wait)
}

// failingError is the failure of other users' refreshes, which this one was spared.
type failingError struct{ err error }

func (e *failingError) Error() string {
	return "dispensary: the token endpoint fails, and is spared for the moment: " + e.err.Error()
}

func (e *failingError) Unwrap() error { return e.err }

// blocked returns why a refresh of the user is not to be tried now, or nil.
func (c *Client) blocked(at slot) error {
	if err := c.cooling.blocked(at); err != nil {
		return err
	}
	return c.endpoint.failing()
}
