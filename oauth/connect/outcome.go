package connect

import (
	"errors"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Outcome is how a visit of a browser to a [Handler] ended.
type Outcome string

// The outcomes. Unless the comment states otherwise, nothing was stored and the user can
// start again. If another request of the same flow has failed, a request reports the same
// outcome.
const (
	// OutcomeConnected: the token is stored, by this request, see [Result.Record], or by
	// another one of the same flow, on any replica: the user clicked twice or went back.
	OutcomeConnected Outcome = "connected"

	// OutcomeCanceled: the user did not authorize. It is no failure. Err matches
	// [oauth.ErrCanceled].
	OutcomeCanceled Outcome = "canceled"

	// OutcomeNotSignedIn: [Config.User] knows no user of the request.
	// Err is what it returned.
	OutcomeNotSignedIn Outcome = "not_signed_in"

	// OutcomeOtherSite: a link or a redirect of another site was to start the flow. It may
	// want to connect the user to an account that the browser is signed in to on the
	// platform, and which is not the user's. The user continues with a link of the page.
	OutcomeOtherSite Outcome = "other_site"

	// OutcomeBadLink: the URL cannot start or finish a flow. The return address is not
	// allowed, or Err matches one of these:
	//   - [oauth.ErrState]: the state is not from here, is older than 30 minutes, was
	//     made for another user, or this browser has no cookie for it: it was used, the
	//     flow began in another browser, or the browser keeps no cookies.
	//   - [oauth.ErrNoCode]: the state is right and there is no code.
	//   - [oauth.ErrCodeRefused]: the code is older than 10 minutes, or was used.
	OutcomeBadLink Outcome = "bad_link"

	// OutcomeOwnerRefused: Verify of [tokens.Config] did not accept the account. The token
	// has been revoked. Err matches [tokens.ErrOwnerRefused].
	OutcomeOwnerRefused Outcome = "owner_refused"

	// OutcomePlatformFailed: the authorization page reported an error (Err is an
	// [*oauth.CallbackError]), or the platform could not be reached or responded with an error
	// (an [*api.Error], or Err matches [tokens.ErrUndecided]).
	OutcomePlatformFailed Outcome = "platform_failed"

	// OutcomeUnavailable: something failed on the own side. Err is one of these:
	//   - [ErrUserLookup]: the user may be signed in.
	//   - [*tokens.StoreError]: a token that was not stored has been revoked.
	//   - [tokenstore.ErrNoResult], or the error that prevented a result: another request began
	//     to connect the user and did not finish. It may have stored a token.
	OutcomeUnavailable Outcome = "unavailable"

	// OutcomeMisconfigured: the platform rejects the application, and only its
	// operator can help. Err is a [*oauth.ConfigError].
	OutcomeMisconfigured Outcome = "misconfigured"
)

// ErrUserLookup is matched by the error of a [Config.User] that could not find out who is
// signed in.
var ErrUserLookup = errors.New("connect: the user could not be looked up")

// errOtherSite is the error of a flow that another site was to start.
var errOtherSite = errors.New("connect: another site opened the connect page")

// errDuplicate is matched by [Result].Err if another request of the same flow has failed
// with the same outcome.
var errDuplicate = errors.New("connect: another request of this flow has failed")

// Result is what [Config.Done] receives. It holds no code, no state and
// no secret.
type Result struct {
	// Outcome says how it ended.
	Outcome Outcome

	// Key names the user; User is empty where no user is signed in.
	Key tokenstore.Key

	// Record is what this request has stored. It is zero if another request of the flow
	// has connected the user.
	Record tokenstore.Record

	// ReturnTo is where the user wanted to go: checked, and never empty.
	ReturnTo string

	// Err is the reason where the outcome is a failure.
	Err error

	startName string // relative address that starts the flow again
	name      string // of Config
}

// outcomeOf distinguishes the errors of [oauth.ParseCallback] and [tokens.Connections.Connect].
func outcomeOf(err error) Outcome {
	var store *tokens.StoreError
	var refusal *oauth.ConfigError
	switch {
	case err == nil:
		return OutcomeConnected
	case errors.Is(err, oauth.ErrCanceled):
		return OutcomeCanceled
	case errors.Is(err, oauth.ErrState), errors.Is(err, oauth.ErrNoCode), errors.Is(err, oauth.ErrCodeRefused):
		return OutcomeBadLink
	case errors.Is(err, tokens.ErrOwnerRefused):
		return OutcomeOwnerRefused
	case errors.As(err, &store):
		return OutcomeUnavailable
	case errors.As(err, &refusal):
		return OutcomeMisconfigured
	}
	return OutcomePlatformFailed
}

// requestID returns what the platform's support asks for.
func (r *Result) requestID() string {
	var answer *api.Error
	if errors.As(r.Err, &answer) {
		return answer.RequestID
	}
	return ""
}
