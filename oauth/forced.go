package oauth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Bounds of the refreshes that an answer of 401 forces although the token has not
// come to its end. The API states none.
const (
	// maxForced is how many run at a time in a process. When the API answers 401 to
	// everybody, about as many tokens are replaced in vain until that shows.
	maxForced = 8

	// forcedPause is how long a user whose new token was refused too is not
	// refreshed by force again.
	forcedPause = 2 * time.Minute

	// forcedMemory is how long a new token may take to be refused.
	forcedMemory = time.Minute
)

// forcedPolicy says when nobody is refreshed by force for a while: the new tokens
// of so many users were refused too that it is the API, and not a token.
var forcedPolicy = BreakerPolicy{Users: 5, Window: time.Minute, Pause: time.Minute}

// forcing keeps a spell of 401 from replacing everybody's token again and again.
// As long as new tokens are taken nothing is held back: a platform that has ended
// all access tokens can be followed.
type forcing struct {
	turns chan struct{} // holds one element for each forced refresh that runs
	spell breaker

	mu    sync.Mutex
	users map[slot]*forced
}

// forced is the last forced refresh of a user.
type forced struct {
	token api.Secret // what it brought
	until time.Time  // no other before; zero while the token is not known to be refused
}

func newForcing() *forcing {
	return &forcing{turns: make(chan struct{}, maxForced), users: map[slot]*forced{}}
}

// paused reports that a 401 of the user is not a reason to refresh now.
func (f *forcing) paused(at slot) bool {
	now := time.Now()
	if now.Before(f.spell.pausedUntil()) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.users[at]
	return ok && now.Before(last.until)
}

// issued remembers what a forced refresh brought, until it could have shown to be
// in vain.
func (f *forcing) issued(at slot, token api.Secret) {
	f.keep(at, &forced{token: token}, forcedMemory)
}

// refused reports whether the token came from a forced refresh, which then was in
// vain, and holds back the next one.
func (f *forcing) refused(at slot, token api.Secret) bool {
	f.mu.Lock()
	last, ok := f.users[at]
	f.mu.Unlock()
	if !ok || last.token != token {
		return false
	}
	f.keep(at, &forced{until: time.Now().Add(forcedPause)}, forcedPause)
	return true
}

// clear forgets a user, who was connected anew.
func (f *forcing) clear(at slot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.users, at)
}

func (f *forcing) keep(at slot, last *forced, memory time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users[at] = last
	time.AfterFunc(memory, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.users[at] == last {
			delete(f.users, at)
		}
	})
}

// noteRefused counts a user whose new token was refused too.
func (c *Client) noteRefused(ctx context.Context, at slot, token api.Secret) {
	if !c.forcing.refused(at, token) {
		return
	}
	if counted := c.forcing.spell.refused(forcedPolicy, at.key); counted.alarm {
		c.logger.LogAttrs(ctx, slog.LevelWarn, "dispensary oauth: the API answers 401 to tokens that were just issued; a 401 forces no refresh for now",
			slog.String("environment", c.Environment().String()), slog.Int("users", counted.users), slog.Duration("pause", forcedPolicy.Pause))
	}
}
