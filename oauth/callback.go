package oauth

import (
	"crypto/subtle"
	"fmt"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// CallbackError is a callback without a usable code. With [errors.Is] it matches
// [ErrCanceled], [ErrState] or [ErrNoCode]. It matches none of them if the authorization page
// reported another error.
type CallbackError struct {
	// Code is the error code of the callback (RFC 6749, section 4.1.2.1), for example
	// "access_denied". It is empty if the callback has no code or one in an invalid form.
	Code string

	// Description is the callback's error_description. It is untrusted, because anyone can
	// create such a link: escape it, and do not log it. [CallbackError.Error] does not contain
	// it.
	Description string

	kind error
}

// Error returns the text of the sentinel followed by the error code, if any.
func (e *CallbackError) Error() string {
	switch {
	case e == nil:
		return "<nil>"
	case e.Code == "":
		return fmt.Sprint(e.kind)
	}
	return fmt.Sprint(e.kind) + ": " + e.Code
}

// Unwrap returns the sentinel.
func (e *CallbackError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.kind
}

// ParseCallback reads the query of a callback, r.URL.Query(), and returns its code for
// [Client.Exchange]. wantState is the state that [Client.AuthorizeURL] sent with this browser.
// The query must contain the same state. States are compared in constant time, and an empty
// wantState matches no state.
//
// All errors are [*CallbackError]. The API does not specify whether a canceled callback
// repeats the state. ParseCallback accepts an error without a state, because nothing is stored
// for it. An error with a wrong state is [ErrState].
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
	// RFC 6749, section 3.1: a parameter must not occur twice.
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

// maxErrorCode is the longest code, in bytes, for the text of an error.
const maxErrorCode = 64

// isErrorCode reports whether code is safe to log without escaping.
func isErrorCode(code string) bool {
	return len(code) <= maxErrorCode && !strings.ContainsFunc(code, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_'
	})
}
