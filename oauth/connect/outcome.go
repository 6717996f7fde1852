package connect

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/webpage"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Outcome is the result of a browser's visit to a [Handler].
type Outcome string

// The outcomes. Unless noted otherwise, no token was stored and the user can start again. If
// another request of the same flow has failed, a request reports the same outcome.
const (
	// OutcomeConnected: the token is stored. Either this request stored it, see
	// [Result.Record], or another request of the same flow on any replica: the user clicked
	// twice or went back.
	OutcomeConnected Outcome = "connected"

	// OutcomeCanceled: the user did not authorize. This is not a failure. Err matches
	// [oauth.ErrCanceled].
	OutcomeCanceled Outcome = "canceled"

	// OutcomeNotSignedIn: [Config.User] returned no user. Err is the error that it returned.
	OutcomeNotSignedIn Outcome = "not_signed_in"

	// OutcomeOtherSite: a link or a redirect of another site tried to start the flow. The
	// platform may have another account signed in in this browser, and an attacker could
	// connect it to the user. The page has a link with which the user can continue.
	OutcomeOtherSite Outcome = "other_site"

	// OutcomeBadLink: the URL cannot start or finish a flow. The return address is not
	// allowed, or Err matches one of these:
	//   - [oauth.ErrState]: the state is invalid, is older than 30 minutes or belongs to
	//     another user, or this browser has no cookie for it. The cookie is missing if the
	//     state was used, the flow started in another browser, or the browser blocks cookies.
	//   - [oauth.ErrNoCode]: the state is valid, but there is no code.
	//   - [oauth.ErrCodeRejected]: the code is older than 10 minutes or was used.
	OutcomeBadLink Outcome = "bad_link"

	// OutcomeOwnerRejected: Verify of [tokens.Config] rejected the account. The token has been
	// revoked. Err matches [tokens.ErrOwnerRejected].
	OutcomeOwnerRejected Outcome = "owner_rejected"

	// OutcomePlatformFailed: the authorization page reported an error (Err is an
	// [*oauth.CallbackError]), or the platform was unreachable or responded with an error (Err
	// is an [*api.Error] or matches [tokens.ErrUndecided]).
	OutcomePlatformFailed Outcome = "platform_failed"

	// OutcomeUnavailable: your program or its store failed. Err is one of these:
	//   - [ErrUserLookup]: the user may be signed in.
	//   - [*tokens.StoreError]: the token could not be stored and has been revoked.
	//   - [tokenstore.ErrNoResult], or the error that prevented a result: another request
	//     started to connect the user and did not finish. It may have stored a token.
	OutcomeUnavailable Outcome = "unavailable"

	// OutcomeMisconfigured: the platform rejects the application, and only its operator can
	// fix that. Err is a [*oauth.ConfigError].
	OutcomeMisconfigured Outcome = "misconfigured"
)

// ErrUserLookup is the error of a [Config.User] that could not determine the signed-in user.
// Return it, wrapped or not.
var ErrUserLookup = errors.New("connect: cannot look up the signed-in user")

// errOtherSite is the error of a flow that another site tried to start.
var errOtherSite = errors.New("connect: another site opened the connect page")

// errDuplicate is matched by [Result].Err if another request of the same flow has failed with
// the same outcome.
var errDuplicate = errors.New("connect: another request of the same flow failed")

// Result is the argument of [Config.Done]. It contains no code, no state and no secret.
type Result struct {
	// Outcome is the outcome of the visit.
	Outcome Outcome

	// Key is the user and the environment. Key.User is empty if no user is signed in.
	Key tokenstore.Key

	// Record is the record that this request has stored. It is zero if another request of the
	// flow has connected the user.
	Record tokenstore.Record

	// ReturnTo is the user's destination, a valid path of your site. It is never empty.
	ReturnTo string

	// Err is the reason of an outcome other than [OutcomeConnected].
	Err error

	startName string // relative URL that starts the flow again
	name      string // of Config
}

// outcomeOf returns the outcome for an error of [oauth.ParseCallback] or
// [tokens.Connections.Connect].
func outcomeOf(err error) Outcome {
	var store *tokens.StoreError
	var rejection *oauth.ConfigError
	switch {
	case err == nil:
		return OutcomeConnected
	case errors.Is(err, oauth.ErrCanceled):
		return OutcomeCanceled
	case errors.Is(err, oauth.ErrState), errors.Is(err, oauth.ErrNoCode), errors.Is(err, oauth.ErrCodeRejected):
		return OutcomeBadLink
	case errors.Is(err, tokens.ErrOwnerRejected):
		return OutcomeOwnerRejected
	case errors.As(err, &store):
		return OutcomeUnavailable
	case errors.As(err, &rejection):
		return OutcomeMisconfigured
	}
	return OutcomePlatformFailed
}

// requestID returns the request ID that the platform's support needs, or "".
func (r *Result) requestID() string {
	var response *api.Error
	if errors.As(r.Err, &response) && response != nil {
		return response.RequestID
	}
	return ""
}

// pageText is the content and the status of a default page. again adds a link that starts the
// flow again.
type pageText struct {
	status      int
	title, text string
	again       bool
}

// pages contains a page for each outcome except success.
var pages = map[Outcome]pageText{
	OutcomeCanceled:       {http.StatusOK, "Not connected", "You did not authorize the connection, so nothing has changed.", true},
	OutcomeNotSignedIn:    {http.StatusUnauthorized, "Please sign in", "You are not signed in. Sign in, then connect again.", false},
	OutcomeOtherSite:      {http.StatusForbidden, "Connect your dispensary account?", "Another website opened this page. Continue only if you want to connect your dispensary account.", true},
	OutcomeBadLink:        {http.StatusBadRequest, "This link does not work", "The link is incomplete, has expired, was already used or was made for another user or browser, or your browser blocks cookies. Nothing was connected.", true},
	OutcomeOwnerRejected:  {http.StatusForbidden, "Wrong account", "The dispensary account that you chose cannot be connected here. Please use another one.", true},
	OutcomePlatformFailed: {http.StatusBadGateway, "Not connected", "The dispensary cannot be reached or reported an error.", true},
	OutcomeUnavailable:    {http.StatusServiceUnavailable, "Not confirmed", "Something went wrong on our side, so we do not know whether connecting worked. Please try again.", true},
	OutcomeMisconfigured:  {http.StatusInternalServerError, "Not connected", "The connection to the dispensary is not set up correctly. Please contact support.", false},
}

// neutralName is the heading if [Config].Name is empty.
const neutralName = "Dispensary connection"

// DefaultPage writes the response of a [Handler] without a Done hook. It redirects a connected
// user to ReturnTo with status 303. Any other user gets a page in English with the name of
// [Config], the result and the possible next steps. DefaultPage replaces the
// Content-Security-Policy: its only style sheet is inline and allowed by its digest.
func DefaultPage(w http.ResponseWriter, result *Result) {
	if result.Outcome == OutcomeConnected {
		w.Header().Set("Location", result.ReturnTo)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	text, known := pages[result.Outcome]
	if !known {
		text.status = http.StatusBadRequest
	}
	page := webpage.Notice{Name: cmp.Or(result.name, neutralName), Title: text.title, Text: text.text, Reference: result.requestID()}
	if text.again {
		action := "Try again"
		if result.Outcome == OutcomeOtherSite {
			action = "Connect"
		}
		page.Links = append(page.Links, webpage.Link{URL: "./" + result.startName + "?return_to=" + url.QueryEscape(result.ReturnTo), Text: action})
	}
	page.Links = append(page.Links, webpage.Link{URL: result.ReturnTo, Text: "Continue without connecting"})
	page.Write(w, text.status)
}
