package oauth

import (
	"crypto/subtle"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// CallbackError says why a callback brings no code that may be used. It
// matches, through [errors.Is], [ErrCanceled], [ErrState] or [ErrNoCode], and none of
// them after another error of the authorization page.
type CallbackError struct {
	// Code is the error code of the callback (RFC 6749, section 4.1.2.1), for
	// example "access_denied"; empty if there is none, or if it is not of the
	// form of a code.
	Code string

	// Description is the callback's error_description. It is untrusted, because
	// anyone can make such a link: escape it, and do not log it.
	// [CallbackError.Error] leaves it out.
	Description string

	kind error
}

// Error returns the text of the sentinel and the error code.
func (e *CallbackError) Error() string {
	if e.Code == "" {
		return e.kind.Error()
	}
	return e.kind.Error() + ": " + e.Code
}

// Unwrap returns the sentinel that the error matches.
func (e *CallbackError) Unwrap() error { return e.kind }

// ParseCallback reads the query of the request that the platform sends the
// browser back with, r.URL.Query(), and returns its code for [Client.Exchange].
// The query must carry wantState, the state this browser was sent away with;
// it is compared in constant time, and an empty wantState matches nothing.
//
// All errors are [*CallbackError]. The API does not say whether an answer of
// "canceled" repeats the state: one without a state is taken as what it says,
// because nothing is done on it; one with a wrong state is [ErrState].
// API section: "Authentication" 3.
func ParseCallback(query url.Values, wantState string) (api.Secret, error) {
	_, stated := query["state"]
	failed := query.Has("error")
	if (stated || !failed) && !stateMatches(query["state"], wantState) {
		return api.Secret{}, &CallbackError{kind: ErrState}
	}
	if failed {
		return api.Secret{}, refusedCallback(query)
	}
	// RFC 6749, section 3.1: no parameter may come twice.
	if codes := query["code"]; len(codes) == 1 && codes[0] != "" {
		return api.NewSecret(codes[0]), nil
	}
	return api.Secret{}, &CallbackError{kind: ErrNoCode}
}

func stateMatches(got []string, want string) bool {
	return want != "" && len(got) == 1 && subtle.ConstantTimeCompare([]byte(got[0]), []byte(want)) == 1
}

func refusedCallback(query url.Values) *CallbackError {
	e := &CallbackError{Code: query.Get("error"), Description: query.Get("error_description"), kind: errCallback}
	if !isErrorCode(e.Code) {
		e.Code = ""
	}
	if e.Code == "access_denied" {
		e.kind = ErrCanceled
	}
	return e
}

// maxErrorCode bounds what of a callback gets into an error's text.
const maxErrorCode = 64

// isErrorCode is true of texts that can stand in a log as they are.
func isErrorCode(code string) bool {
	return len(code) <= maxErrorCode && !strings.ContainsFunc(code, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_'
	})
}
