// Package apierror creates the errors of API calls.
package apierror

import (
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
)

// New returns e with its cause, the response body and the messages in the body. cause, body
// and messages may be nil.
func New(e api.Error, cause error, body []byte, messages []detail.Message) *api.Error {
	detail.Attach(&e, detail.Detail{Cause: cause, Body: body, Messages: messages})
	return &e
}
