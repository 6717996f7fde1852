// Package apikit creates and reads values of package api in ways that only this module may: errors of
// calls, errors that describe themselves, and priorities.
package apikit

import (
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// NewError returns e with its cause, the response body and the messages in the body. cause, body
// and messages may be nil.
func NewError(e api.Error, cause error, body []byte, messages []hidden.Message) *api.Error {
	hidden.Attach(&e, hidden.Detail{Cause: cause, Body: body, Messages: messages})
	return &e
}
