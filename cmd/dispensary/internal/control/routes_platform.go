package control

import (
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
)

func platformOperations() []Operation {
	return []Operation{
		read("settings.get", "/settings", "Addresses, credentials and accounts of the platform.",
			func(c *call) (Settings, error) { return settingsOf(c.fake, c.options), nil }),
		do("platform.reset", "POST", "/reset", "Takes the platform back to how it started: to the world of its seed and size, or to the snapshot or state file that it was started with. The time stays as it is, and a state file follows.",
			func(c *call) (nothing, error) { c.fake.Reset(); return nothing{}, nil }),
	}
}

// clockState is where the platform's clock stands.
type clockState struct {
	Now    time.Time
	Frozen bool
	Next   time.Time
}

// clockMove says how far a clock moves: by a duration, or to a time.
type clockMove struct {
	By *time.Duration
	To time.Time
}

// maxAdvance bounds a move. Every delivery that falls due on the way is made, so
// that a typing mistake could take long.
const maxAdvance = 10 * 365 * 24 * time.Hour

func clockOperations() []Operation {
	return []Operation{
		read("clock.get", "/clock", "The platform's time, whether it stands still, and when the next delivery is due.",
			func(c *call) (clockState, error) { return stateOf(c.fake.Clock), nil }),
		act("clock.advance", "POST", "/clock/advance",
			"Moves the clock forward: by a duration such as 1h30m, or to a time. Answers once every delivery that fell due on the way was made.", advanceClock),
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
		return clockState{}, invalid("say either by or to")
	case in.By != nil:
		by = *in.By
	default:
		by = in.To.Sub(clock.Now())
	}
	if by < 0 || by > maxAdvance {
		return clockState{}, invalid("the clock moves forward, and by ten years at most")
	}
	clock.Advance(by)
	return stateOf(clock), nil
}

// tokenRequest asks for a user's consent without the browser.
type tokenRequest struct {
	User   string
	Scopes []string
}

// issuedToken is a pair of tokens. The user's password is left out.
type issuedToken struct {
	ID           string
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	UserID       string
}

// knownCredential is a token or code that the platform gave out.
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
		list("credentials.list", "/credentials", "credentials", "Every token and open authorization code, and why it would be refused.", listCredentials),
		act("tokens.issue", "POST", "/tokens", "Gives a user's consent without the browser. The user is named by id or e-mail address; without scopes the token has the application's.", issueToken),
		act("tokens.expire", "POST", "/tokens/expire", "Lets an access token expire now; its refresh token stays good.",
			func(c *call, in accessTokenNamed) (nothing, error) {
				return nothing{}, c.fake.Tokens.Expire(in.AccessToken)
			}),
		do("tokens.invalidate", "POST", "/tokens/invalidate", "Ends every token and refresh token; users have to authorize again.",
			func(c *call) (nothing, error) { c.fake.Tokens.InvalidateAll(); return nothing{}, nil }),
		act("tokens.revoke", "POST", "/tokens/revoke", "Ends the consent of one user: every access token, refresh token and code. The user is named by id or e-mail address, the first practitioner unless set.",
			func(c *call, in userNamed) (nothing, error) {
				user, err := c.userLike(in.User)
				if err == nil {
					c.fake.Tokens.Revoke(user)
				}
				return nothing{}, err
			}),
		act("application.extend_scopes", "POST", "/application/scopes", "Adds scopes to the application, which invalidates every token obtained before.",
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
	t := c.fake.Tokens.Issue(user, in.Scopes...) // panics where there is no such scope
	return issuedToken{
		ID: t.ID, AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, Scopes: t.Scopes,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UserID: t.User.ID,
	}, nil
}
