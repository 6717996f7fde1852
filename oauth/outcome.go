package oauth

import (
	"errors"
	"net/http"

	"github.com/dispensary-go/dispensary/api"
)

// Outcome is how a visit of a browser to a [Handler] ended.
type Outcome string

// The outcomes. Unless they say otherwise nothing was stored, and the user can
// start again.
const (
	// OutcomeConnected: the token is stored, see [Result.Record].
	OutcomeConnected Outcome = "connected"

	// OutcomeAlreadyConnected: this browser comes a second time with a state
	// that has done its work: the user pressed twice, or went back. The user
	// is connected since the flow began.
	OutcomeAlreadyConnected Outcome = "already_connected"

	// OutcomeCancelled: the user did not authorize. It is an answer, no
	// failure. Err matches [ErrCancelled].
	OutcomeCancelled Outcome = "cancelled"

	// OutcomeNotSignedIn: [HandlerConfig.User] knows no user of the request.
	// Err is what it returned.
	OutcomeNotSignedIn Outcome = "not_signed_in"

	// OutcomeBadReturn: the flow was to start with a return address that is
	// not allowed. Err matches [ErrReturn].
	OutcomeBadReturn Outcome = "bad_return"

	// OutcomeWrongState: the state, or the cookie that belongs to it, is
	// missing, or not from here: an address that was cut off, a forged one, or
	// one signed by a key that is not in the ring any more. Err matches
	// [ErrState].
	OutcomeWrongState Outcome = "wrong_state"

	// OutcomeExpiredState: the state is ours and older than
	// [HandlerConfig.StateLifetime]. Err matches [ErrState].
	OutcomeExpiredState Outcome = "expired_state"

	// OutcomeUsedState: the state is ours, and this browser has no cookie for
	// it: it has been used, the flow began in another browser, or the browser
	// keeps no cookies. Err matches [ErrState].
	OutcomeUsedState Outcome = "used_state"

	// OutcomeOtherUser: another user is signed in than when the flow began.
	// Err matches [ErrState].
	OutcomeOtherUser Outcome = "other_user"

	// OutcomeNoCode: the state is right and there is no code. Err matches
	// [ErrNoCode].
	OutcomeNoCode Outcome = "no_code"

	// OutcomePageError: the authorization page reported an error. Err is a
	// [*CallbackError] and matches [ErrCallback].
	OutcomePageError Outcome = "page_error"

	// OutcomeCodeRefused: the code is older than 10 minutes, or was used. Err
	// matches [ErrCodeRefused].
	OutcomeCodeRefused Outcome = "code_refused"

	// OutcomeOwnerRefused: [HandlerConfig.Verify] did not accept the account,
	// or its type is not one of [HandlerConfig.OwnerTypes]. The token has been
	// revoked. Err matches [ErrOwnerRefused].
	OutcomeOwnerRefused Outcome = "owner_refused"

	// OutcomeExchangeFailed: the platform could not be asked, or answered with
	// an error of its own. Err is an [*api.Error].
	OutcomeExchangeFailed Outcome = "exchange_failed"

	// OutcomeNotStored: the store failed. The token has been revoked. Err is a
	// [*StoreError].
	OutcomeNotStored Outcome = "not_stored"

	// OutcomeMisconfigured: the platform refuses the application, and only its
	// operator can help. Err is a [*ConfigError].
	OutcomeMisconfigured Outcome = "misconfigured"
)

// Result is what [HandlerConfig.Done] receives. It holds no code, no state and
// no secret.
type Result struct {
	// Outcome says how it ended.
	Outcome Outcome

	// Key names the user; User is empty where nobody is signed in.
	Key Key

	// Record is what is stored after [OutcomeConnected].
	Record Record

	// ReturnTo is where the user wanted to go: checked, and never empty.
	ReturnTo string

	// Err is the reason where the outcome is a failure.
	Err error

	again string // relative address that starts the flow again
}

// Connected reports that the user is connected, by this request or by the one
// before it.
func (r *Result) Connected() bool {
	return r.Outcome == OutcomeConnected || r.Outcome == OutcomeAlreadyConnected
}

// Status returns the HTTP status that goes with the outcome.
func (r *Result) Status() int {
	switch r.Outcome {
	case OutcomeConnected, OutcomeAlreadyConnected:
		return http.StatusSeeOther
	case OutcomeCancelled:
		return http.StatusOK
	case OutcomeNotSignedIn:
		return http.StatusUnauthorized
	case OutcomeOtherUser, OutcomeOwnerRefused:
		return http.StatusForbidden
	case OutcomeExchangeFailed, OutcomePageError:
		return http.StatusBadGateway
	case OutcomeNotStored:
		return http.StatusServiceUnavailable
	case OutcomeMisconfigured:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// outcomeOf tells the errors of [ParseCallback] and [Client.Connect] apart.
func outcomeOf(err error) Outcome {
	var store *StoreError
	var refusal *ConfigError
	switch {
	case err == nil:
		return OutcomeConnected
	case errors.Is(err, ErrCancelled):
		return OutcomeCancelled
	case errors.Is(err, ErrState):
		return OutcomeWrongState
	case errors.Is(err, ErrNoCode):
		return OutcomeNoCode
	case errors.Is(err, ErrCallback):
		return OutcomePageError
	case errors.Is(err, ErrCodeRefused):
		return OutcomeCodeRefused
	case errors.Is(err, ErrOwnerRefused):
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
