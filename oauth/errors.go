package oauth

import (
	"errors"
	"net/http"
	"slices"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sentinel"
)

// Sentinels of the browser flow. They are matched by the errors of
// [ParseCallback] and [Client.Exchange]; nothing has been stored when one is
// returned, and the user can simply start again.
var (
	// ErrCanceled: the user pressed cancel on the authorization page, or may
	// not authorize. It is an answer, not a failure: show a "not connected"
	// page and log nothing.
	ErrCanceled = sentinel.New("oauth: the user did not authorize", api.Problem{
		Status: http.StatusConflict, Title: "The dispensary account was not connected.", Reauthorize: true,
	})

	// ErrState: the callback does not carry the state that this browser was
	// sent away with. The callback may be forged: its code must not be used.
	ErrState = sentinel.New("oauth: the callback's state is not the one that was sent", badLink)

	// ErrNoCode: the callback carries the right state, but no code and no
	// error, or one of them twice.
	ErrNoCode = sentinel.New("oauth: the callback carries no authorization code", badLink)

	// errCallback: the platform sent the browser back with another error than
	// a refusal by the user.
	errCallback = sentinel.New("oauth: the authorization page reported an error", api.Problem{
		Status: http.StatusBadGateway, Title: "The dispensary reported an error. Please try again later.",
	})

	// ErrCodeRefused: the platform does not accept the authorization code: it has
	// been used, is older than 10 minutes, or belongs to another application or
	// redirect address. A code is never tried twice: start the flow again.
	ErrCodeRefused = sentinel.New("oauth: the authorization code was refused", badLink)
)

// badLink describes a link that has expired, was used already, or is of another browser.
var badLink = api.Problem{
	Status: http.StatusBadRequest, Title: "This link does not work. Please connect your dispensary account again.", Reauthorize: true,
}

// ErrOwnerChanged says that a refresh returned a token of another [ResourceOwner] than the one
// whose refresh token was sent. The token is dropped and not revoked: it may belong to a user
// whose response was mixed up with this one.
var ErrOwnerChanged = errors.New("oauth: the refresh returned a token of another resource owner")

// ConfigError says that the platform refuses the application itself: its
// ClientID, ClientSecret or RedirectURL is not what the dashboard has. It says
// nothing about any user.
type ConfigError struct {
	// Environment is the application's environment. Credentials of another
	// environment are the most frequent reason.
	Environment api.Environment

	// Code is the platform's error code, for example "invalid_client".
	Code string

	err error
}

// Error names the environment, the code and the fields to look at.
func (e *ConfigError) Error() string {
	return "oauth: the platform refuses the application (" + e.Code + "): check ClientID, ClientSecret and RedirectURL for " + e.Environment.String()
}

// Problem tells the user to contact support; see [api.ProblemOf].
func (e *ConfigError) Problem() *api.Problem { return api.ProblemOf(api.ErrWrongEnvironment) }

// Unwrap returns the platform's answer, an [*api.Error].
func (e *ConfigError) Unwrap() error { return e.err }

// configCodes are the codes that blame the application. The last two are an
// assumption: the API lists no codes, and RFC 6749 none for a redirect address. Other codes of
// RFC 6749, such as invalid_request, may be about a user's refresh token.
var configCodes = []string{"invalid_client", "unauthorized_client", "invalid_redirect_uri", "redirect_uri_mismatch"}

// classify turns an answer that blames the application into a [ConfigError].
// Every other response stays what it is. One that is not understood, or not provably the
// platform's, counts as a temporary failure, which logs no user out.
func classify(environment api.Environment, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Untrusted || e.StatusCode < 400 || e.StatusCode >= 500 {
		return err
	}
	code := e.Code
	if code == "" {
		if messages := e.Messages(); len(messages) > 0 && slices.Contains(configCodes, messages[0]) {
			code = messages[0] // a code that RFC 6749 does not list arrives as a message
		}
	}
	if slices.Contains(configCodes, code) {
		return &ConfigError{Environment: environment, Code: code, err: err}
	}
	return err
}
