package store

import (
	"fmt"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// ActionError is the error of a failed action of the platform's users.
type ActionError struct {
	Action string // the action, such as "PlaceOrder"
	Kind   error  // model.ErrNotFound, model.ErrValidation or model.ErrState
	Detail string
}

// Error returns the action, the kind and the detail.
func (e *ActionError) Error() string {
	return fmt.Sprintf("dispensarytest: %s: %s: %s", e.Action, e.Kind, e.Detail)
}

// Unwrap returns the kind, for errors.Is.
func (e *ActionError) Unwrap() error { return e.Kind }

func Unknown(action, kind, id string) error {
	return &ActionError{Action: action, Kind: model.ErrNotFound, Detail: fmt.Sprintf("no %s has the id %q", kind, id)}
}

func Refused(action string, kind error, format string, args ...any) error {
	return &ActionError{Action: action, Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
