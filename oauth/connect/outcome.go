package connect

import (
	"errors"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Outcome is how a visit of a browser to a [Handler] ended.
type Outcome string

// The outcomes. Unless the comment states otherwise, nothing was stored and the user can
// start again. If another request of the same flow has failed, a request reports the same
// outcome, and Err matches [ErrDuplicate] instead.
const (
	// OutcomeConnected: the token is stored, see [Result.Record].
	OutcomeConnected Outcome = "connected"

	// OutcomeAlreadyConnected: another request of the same flow has connected the
	// user, on this replica or on another one: the user clicked twice or went back.
	OutcomeAlreadyConnected Outcome = "already_connected"

	// OutcomeCancelled: the user did not authorize. It is an answer, no
	// failure. Err matches [oauth.ErrCancelled].
	OutcomeCancelled Outcome = "cancelled"

	// OutcomeNotSignedIn: [Config.User] knows no user of the request.
	// Err is what it returned.
	OutcomeNotSignedIn Outcome = "not_signed_in"

	// OutcomeUserLookupFailed: [Config.User], or Locate of package accounts, could not find
	// out who the user is. The user may be signed in. Err matches [ErrUserLookup].
	OutcomeUserLookupFailed Outcome = "user_lookup_failed"

	// OutcomeBadReturn: the flow was to start with a return address that is
	// not allowed. Err matches [ErrReturn].
	OutcomeBadReturn Outcome = "bad_return"

	// OutcomeOtherSite: a link or a redirect of another site was to start the flow. It may
	// want to connect the user to an account that the browser is signed in to on the
	// platform, and which is not the user's. The user continues with a link of the page.
	// Err matches [ErrOtherSite].
	OutcomeOtherSite Outcome = "other_site"

	// OutcomeWrongState: the state, or the cookie that belongs to it, is
	// missing, or not from here: an address that was cut off, a forged one, or
	// one signed by a key that is not in the ring any more. Err matches
	// [oauth.ErrState].
	OutcomeWrongState Outcome = "wrong_state"

	// OutcomeExpiredState: the state is ours and older than
	// [StateLifetime]. Err matches [oauth.ErrState].
	OutcomeExpiredState Outcome = "expired_state"

	// OutcomeUsedState: the state is ours, and this browser has no cookie for
	// it: it has been used, the flow began in another browser, or the browser
	// keeps no cookies. Err matches [oauth.ErrState].
	OutcomeUsedState Outcome = "used_state"

	// OutcomeOtherUser: another user is signed in than when the flow began.
	// Err matches [oauth.ErrState].
	OutcomeOtherUser Outcome = "other_user"

	// OutcomeNoCode: the state is right and there is no code. Err matches
	// [oauth.ErrNoCode].
	OutcomeNoCode Outcome = "no_code"

	// OutcomePageError: the authorization page reported an error. Err is a
	// [*oauth.CallbackError] and matches [oauth.ErrCallback].
	OutcomePageError Outcome = "page_error"

	// OutcomeCodeRefused: the code is older than 10 minutes, or was used. Err
	// matches [oauth.ErrCodeRefused].
	OutcomeCodeRefused Outcome = "code_refused"

	// OutcomeOwnerRefused: Verify of [tokens.Config] did not accept the account. The token
	// has been revoked. Err matches [tokens.ErrOwnerRefused].
	OutcomeOwnerRefused Outcome = "owner_refused"

	// OutcomeExchangeFailed: the platform could not be asked, or answered with
	// its own error. Err is an [*api.Error], or matches [tokens.ErrUndecided].
	OutcomeExchangeFailed Outcome = "exchange_failed"

	// OutcomeInterrupted: another request began to connect the user and did not
	// finish, for example because it crashed. It may have stored a token. Err matches
	// [tokens.ErrNoResult], or is the error that prevented a result.
	OutcomeInterrupted Outcome = "interrupted"

	// OutcomeNotStored: the store failed. If it failed after the exchange, the token
	// has been revoked. Err is a [*tokens.StoreError].
	OutcomeNotStored Outcome = "not_stored"

	// OutcomeMisconfigured: the platform refuses the application, and only its
	// operator can help. Err is a [*oauth.ConfigError].
	OutcomeMisconfigured Outcome = "misconfigured"
)

// ErrUserLookup is matched by the error of a [Config.User] that could not find out who is
// signed in.
var ErrUserLookup = errors.New("connect: the user could not be looked up")

// ErrOtherSite is the error of a flow that another site was to start.
var ErrOtherSite = errors.New("connect: another site opened the connect page")

// ErrDuplicate is matched by [Result].Err if another request of the same flow has failed
// with the same outcome.
var ErrDuplicate = errors.New("connect: another request of this flow has failed")

// Result is what [Config.Done] receives. It holds no code, no state and
// no secret.
type Result struct {
	// Outcome says how it ended.
	Outcome Outcome

	// Key names the user; User is empty where no user is signed in.
	Key tokens.Key

	// Record is what is stored after [OutcomeConnected].
	Record tokens.Record

	// ReturnTo is where the user wanted to go: checked, and never empty.
	ReturnTo string

	// Err is the reason where the outcome is a failure.
	Err error

	startName string // relative address that starts the flow again
}

// Connected reports that the user is connected, by this request or by the one
// before it.
func (r *Result) Connected() bool {
	return r.Outcome == OutcomeConnected || r.Outcome == OutcomeAlreadyConnected
}

// outcomeOf distinguishes the errors of [oauth.ParseCallback] and [tokens.Connections.Connect].
func outcomeOf(err error) Outcome {
	var store *tokens.StoreError
	var refusal *oauth.ConfigError
	switch {
	case err == nil:
		return OutcomeConnected
	case errors.Is(err, oauth.ErrCancelled):
		return OutcomeCancelled
	case errors.Is(err, oauth.ErrState):
		return OutcomeWrongState
	case errors.Is(err, oauth.ErrNoCode):
		return OutcomeNoCode
	case errors.Is(err, oauth.ErrCallback):
		return OutcomePageError
	case errors.Is(err, oauth.ErrCodeRefused):
		return OutcomeCodeRefused
	case errors.Is(err, tokens.ErrOwnerRefused):
		return OutcomeOwnerRefused
	case errors.As(err, &store):
		return OutcomeNotStored
	case errors.As(err, &refusal):
		return OutcomeMisconfigured
	}
	return OutcomeExchangeFailed
}

// requestID returns what the platform's support asks for.
func (r *Result) requestID() string {
	var answer *api.Error
	if errors.As(r.Err, &answer) {
		return answer.RequestID
	}
	return ""
}
