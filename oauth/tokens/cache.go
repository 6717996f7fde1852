package tokens

import (
	"errors"
	"time"
	"unique"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// cachedToken is a token in memory with the times of its renewal.
type cachedToken struct {
	token  api.AccessToken
	renew  time.Time // from this time, a call refreshes the token in the background
	expire time.Time // from this time, callers wait for a new token

	// checked is the last time the token was compared with the store. It has no monotonic
	// reading, because the monotonic clock stops while a machine sleeps.
	checked time.Time
}

const (
	// checkEvery is the time for which a source uses a token without comparing it with the
	// store. It bounds the delay until a replica notices a connection or disconnection of the
	// user on another replica, even if the old token still works. The platform's limit allows 17
	// calls per second, so the store gets at most 17 reads per second.
	checkEvery = 30 * time.Second

	// checkPatience is how long callers with a valid token wait for a read of the store, counted
	// from its start.
	checkPatience = 2 * time.Second
)

// expiryMargin is how early a token counts as expired, so that it is still valid when it
// reaches the platform. x/oauth2 uses the same margin.
const expiryMargin = 10 * time.Second

// newCachedToken computes the times. Both margins shrink with the lifetime of the token.
// Otherwise every call would refresh a token with a lifetime of a minute.
func newCachedToken(t oauth.Token) *cachedToken {
	c := &cachedToken{token: t.Access(), checked: time.Now().Round(0)}
	// Hundreds of thousands of tokens share a few texts.
	c.token.Environment = unique.Make(t.Environment).Value()
	c.token.Scope = unique.Make(t.Scope).Value()
	if !t.ExpiresAt.IsZero() {
		leeway := defaults.TokenLeeway
		if t.Lifetime > 0 {
			leeway = min(leeway, t.Lifetime/4)
		}
		c.renew = t.ExpiresAt.Add(-leeway)
		c.expire = t.ExpiresAt.Add(-min(expiryMargin, leeway/2))
	}
	return c
}

// unchecked reports whether the token must be compared with the store before its next use.
// This includes a wall clock that was set back.
func (c *cachedToken) unchecked(now time.Time) bool {
	age := now.Round(0).Sub(c.checked)
	return age < 0 || age >= checkEvery
}

func (c *cachedToken) fresh(now time.Time) bool { return c.renew.IsZero() || now.Before(c.renew) }
func (c *cachedToken) alive(now time.Time) bool { return c.expire.IsZero() || now.Before(c.expire) }

// outlives reports whether the token can be used although its user is marked: the platform
// has rejected a refresh, not this token.
func (c *cachedToken) outlives(err error) bool {
	var mark *ReauthorizeError
	return errors.As(err, &mark) && (mark.Reason == tokenstore.ReasonInvalidGrant || mark.Reason == tokenstore.ReasonOwnerChanged) &&
		!c.expire.IsZero() && c.alive(time.Now())
}

// valid reports whether the token has not expired. It has no margin, because a token in its
// last seconds is better than none.
func (c *cachedToken) valid(now time.Time) bool {
	return c.token.ExpiresAt.IsZero() || now.Before(c.token.ExpiresAt)
}
