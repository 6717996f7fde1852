package transport

import (
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// Required reports the first field that is empty. Fields and their values come
// in pairs.
func Required(op *operation.Operation, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return Invalid(op, pairs[i], "is required")
		}
	}
	return nil
}

// Invalid reports a field that cannot be sent.
func Invalid(op *operation.Operation, field, reason string) error {
	return &api.ArgumentError{Operation: op.Name, Field: field, Reason: reason}
}
