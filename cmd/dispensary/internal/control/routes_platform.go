package control

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

func platformOperations() []Operation {
	return []Operation{
		read("settings.get", "/settings", "Returns URLs, credentials and accounts of the platform.",
			func(c *call) (Settings, error) { return settingsOf(c.fake, c.options), nil }),
		do("platform.reset", "POST", "/reset", "Restores the initial state: the generated data, or the snapshot or state file of the start. The clock keeps its time. A state file is overwritten.",
			func(c *call) (nothing, error) { c.fake.Reset(); return nothing{}, nil }),
	}
}

// clockState is the state of the clock.
type clockState struct {
	Now    time.Time
	Frozen bool
	Next   time.Time
}

// clockMove moves the clock by a duration or to a time.
type clockMove struct {
	By *time.Duration
	To time.Time
}

// maxAdvance is the longest move. The platform sends each delivery that becomes due during the
// move, so a typing error could take very long.
const maxAdvance = 10 * 365 * 24 * time.Hour

func clockOperations() []Operation {
	return []Operation{
		read("clock.get", "/clock", "Returns the platform's time, whether the clock is frozen, and the time of the next delivery.",
			func(c *call) (clockState, error) { return stateOf(c.fake.Clock), nil }),
		act("clock.advance", "POST", "/clock/advance",
			"Moves the clock forward by a duration such as 1h30m, or to a time. Responds after all deliveries that became due.", advanceClock),
	}
}

func stateOf(clock *dispensarytest.Clock) clockState {
	next, _ := clock.Next()
	return clockState{Now: clock.Now(), Frozen: clock.Frozen(), Next: next}
}

func advanceClock(c *call, in clockMove) (clockState, error) {
	clock := c.fake.Clock
	var by time.Duration
	switch {
	case (in.By == nil) == in.To.IsZero():
		return clockState{}, invalid("set either by or to")
	case in.By != nil:
		by = *in.By
	default:
		by = in.To.Sub(clock.Now())
	}
	if by < 0 || by > maxAdvance {
		return clockState{}, invalid("the clock can only move forward, at most ten years")
	}
	clock.Advance(by)
	return stateOf(clock), nil
}

// tokenRequest authorizes the application for a user without the browser.
type tokenRequest struct {
	User   string
	Scopes []string
}

// issuedToken is a pair of tokens. It omits the user's password.
type issuedToken struct {
	ID           string
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	UserID       string
}

// knownCredential is a token or code that the platform has issued.
type knownCredential struct {
	Kind      string
	Value     string
	TokenID   string
	UserID    string
	Scopes    []string
	ExpiresAt time.Time
	Rejection string
}

type accessTokenNamed struct{ AccessToken string }

type userNamed struct{ User string }

type scopesNamed struct{ Scopes []string }

func tokenOperations() []Operation {
	return []Operation{
		list("credentials.list", "/credentials", "credentials", "Lists all tokens and open authorization codes, with the reason if one is rejected.", listCredentials),
		act("tokens.issue", "POST", "/tokens", "Authorizes the application for a user without the browser, and returns the tokens. The user is an id or e-mail address, by default the first practitioner. The default scopes are those of the application.", issueToken),
		act("tokens.expire", "POST", "/tokens/expire", "Expires an access token now. Its refresh token stays valid.",
			func(c *call, in accessTokenNamed) (nothing, error) {
				return nothing{}, c.fake.Tokens.Expire(in.AccessToken)
			}),
		do("tokens.invalidate", "POST", "/tokens/invalidate", "Invalidates all tokens and refresh tokens. Users must authorize again.",
			func(c *call) (nothing, error) { c.fake.Tokens.InvalidateAll(); return nothing{}, nil }),
		act("tokens.revoke", "POST", "/tokens/revoke", "Revokes the authorization of one user: all access tokens, refresh tokens and codes. The user is an id or e-mail address, by default the first practitioner.",
			func(c *call, in userNamed) (nothing, error) {
				user, err := c.userLike(in.User)
				if err == nil {
					c.fake.Tokens.Revoke(user)
				}
				return nothing{}, err
			}),
		act("application.extend_scopes", "POST", "/application/scopes", "Adds scopes to the application. This invalidates all existing tokens.",
			func(c *call, in scopesNamed) (scopesNamed, error) {
				err := c.fake.Tokens.ExtendScopes(in.Scopes...)
				return scopesNamed{Scopes: c.fake.Application().Scopes}, err
			}),
	}
}

func listCredentials(c *call) []knownCredential {
	var rows []knownCredential
	for _, k := range c.fake.Tokens.Credentials() {
		rows = append(rows, knownCredential{
			Kind: k.Kind, Value: k.Value, TokenID: k.TokenID, UserID: k.User.ID, Scopes: k.Scopes, ExpiresAt: k.ExpiresAt, Rejection: k.Rejection,
		})
	}
	return rows
}

func issueToken(c *call, in tokenRequest) (issuedToken, error) {
	user, err := c.userLike(in.User)
	if err != nil {
		return issuedToken{}, err
	}
	t := c.fake.Tokens.Issue(user, in.Scopes...) // panics if a scope is unknown
	return issuedToken{
		ID: t.ID, AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, Scopes: t.Scopes,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UserID: t.User.ID,
	}, nil
}
