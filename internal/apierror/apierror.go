// Package apierror creates the errors of calls.
package apierror

import (
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
)

// New returns e with a cause, the body of the response and the messages in it. Each of them
// may be nil.
func New(e api.Error, cause error, body []byte, messages []detail.Message) *api.Error {
	detail.Attach(&e, detail.Detail{Cause: cause, Body: body, Messages: messages})
	return &e
}
