package tokens

import (
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Bounds of the refreshes that an answer of 401 forces although the token has not
// come to its end. The API states none.
const (
	// maxForced is how many run at a time in a process. When the API answers 401 to
	// all users, about as many tokens are replaced in vain until that shows.
	maxForced = 8

	// forcedPause is how long a user whose new token was refused too is not
	// refreshed by force again.
	forcedPause = 2 * time.Minute

	// forcedMemory is how long a new token may take to be refused.
	forcedMemory = time.Minute
)

// forcedBreaker trips when the new tokens of so many users were refused too that it is the
// API, and not a token: then a 401 forces no refresh for a while.
var forcedBreaker = breaker{users: 5, window: time.Minute, pause: time.Minute}

// forcedRefreshes keeps an API that answers 401 to everything from having
// every token replaced again and again. As long as new tokens are accepted nothing
// is held back: a platform that has ended all access tokens can be followed.
type forcedRefreshes struct {
	slots chan struct{} // holds one element for each forced refresh that runs

	mu      sync.Mutex
	breaker breaker
	users   map[Key]*forcedRefresh
}

// forcedRefresh is the last forced refresh of a user.
type forcedRefresh struct {
	token api.Secret // what it brought
	until time.Time  // no other before; zero while the token is not known to be refused
}

func newForcedRefreshes() forcedRefreshes {
	return forcedRefreshes{
		slots: make(chan struct{}, maxForced), users: map[Key]*forcedRefresh{}, breaker: forcedBreaker,
	}
}

// paused reports that a 401 of the user is not a reason to refresh now.
func (f *forcedRefreshes) paused(key Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Before(f.breaker.until) {
		return true
	}
	last, ok := f.users[key]
	return ok && now.Before(last.until)
}

// recordIssued remembers what a forced refresh brought, until it could have shown to
// be in vain.
func (f *forcedRefreshes) recordIssued(key Key, token api.Secret) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep(key, &forcedRefresh{token: token}, forcedMemory)
}

// recordRefused counts a token that was refused although a forced refresh had just
// brought it, and holds back the next one.
func (f *forcedRefreshes) recordRefused(key Key, token api.Secret) trip {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.users[key]; !ok || last.token != token {
		return trip{}
	}
	f.keep(key, &forcedRefresh{until: time.Now().Add(forcedPause)}, forcedPause)
	return f.breaker.recordRefusal(key)
}

// clear forgets a user, who was connected anew.
func (f *forcedRefreshes) clear(key Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.users, key)
}

// keep replaces the entry of a user, which removes itself. The caller holds mu.
func (f *forcedRefreshes) keep(key Key, last *forcedRefresh, memory time.Duration) {
	f.users[key] = last
	time.AfterFunc(memory, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.users[key] == last {
			delete(f.users, key)
		}
	})
}
