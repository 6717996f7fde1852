package oauth

import (
	"errors"
	"net/http"
	"slices"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
)

// Sentinels of the browser flow. The errors of [ParseCallback] and [Client.Exchange] match
// them. Nothing has been stored if one is returned, so the user can start again.
var (
	// ErrCanceled: the user pressed cancel on the authorization page or may not authorize.
	// This is a normal result: show a "not connected" page and log nothing.
	ErrCanceled = apikit.NewSentinel("oauth: the user did not authorize", api.Problem{
		Status: http.StatusConflict, Title: "The dispensary account was not connected.", Reauthorize: true,
	})

	// ErrState: the state in the callback differs from the state of this browser. The callback
	// may be forged, so its code must not be used.
	ErrState = apikit.NewSentinel("oauth: the callback's state differs from the state of the browser", badLink)

	// ErrNoCode: the callback contains the right state, but neither an error nor exactly one
	// code.
	ErrNoCode = apikit.NewSentinel("oauth: the callback contains no authorization code", badLink)

	// errCallback: the authorization page reported an error other than a rejection by the user.
	errCallback = apikit.NewSentinel("oauth: the authorization page reported an error", api.Problem{
		Status: http.StatusBadGateway, Title: "The dispensary reported an error. Please try again later.",
	})

	// ErrCodeRejected: the platform rejects the authorization code. The code was used before,
	// is older than 10 minutes, or belongs to another application or redirect URL. A code is
	// never sent twice: start the flow again.
	ErrCodeRejected = apikit.NewSentinel("oauth: the platform rejected the authorization code", badLink)
)

// badLink describes a link that expired, was already used or belongs to another browser.
var badLink = api.Problem{
	Status: http.StatusBadRequest, Title: "This link does not work. Please connect your dispensary account again.", Reauthorize: true,
}

// ErrOwnerChanged means that a refresh returned a token whose [ResourceOwner] differs from the
// old token. The new token is dropped and not revoked, because it may belong to a user whose
// response was mixed up with this one.
var ErrOwnerChanged = errors.New("oauth: the refresh returned a token of another resource owner")

// ConfigError means that the platform rejects the application itself: ClientID, ClientSecret
// or RedirectURL differs from the dashboard. It concerns no user in particular.
type ConfigError struct {
	// Environment is the application's environment. Credentials of another environment are the
	// most frequent cause.
	Environment api.Environment

	// Code is the platform's error code, for example "invalid_client".
	Code string

	err error
}

// Error returns the environment, the code and the fields to check.
func (e *ConfigError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return "oauth: the platform rejects the application (" + e.Code + "): check ClientID, ClientSecret and RedirectURL for " + e.Environment.String()
}

// Problem asks the user to contact support. See [api.ProblemOf].
func (e *ConfigError) Problem() *api.Problem { return api.ProblemOf(api.ErrWrongEnvironment) }

// Unwrap returns the platform's response as an [*api.Error].
func (e *ConfigError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.err
}

// configCodes are the error codes for a rejected application. The last two are an assumption:
// the API lists no codes, and RFC 6749 lists none for a redirect URL. Other codes of RFC 6749,
// such as invalid_request, may be caused by a user's refresh token.
var configCodes = []string{"invalid_client", "unauthorized_client", "invalid_redirect_uri", "redirect_uri_mismatch"}

// classify returns a [ConfigError] if the response rejects the application, or err unchanged.
// An unknown response, or one that may not come from the platform, stays a temporary failure,
// which never disconnects a user.
func classify(environment api.Environment, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Untrusted || e.StatusCode < 400 || e.StatusCode >= 500 {
		return err
	}
	code := e.Code
	if code == "" {
		if messages := e.Messages(); len(messages) > 0 && slices.Contains(configCodes, messages[0]) {
			code = messages[0] // the decoder treats a code outside RFC 6749 as a message
		}
	}
	if slices.Contains(configCodes, code) {
		return &ConfigError{Environment: environment, Code: code, err: err}
	}
	return err
}
