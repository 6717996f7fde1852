package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Optional is a field of an update: left out, cleared or set. The zero value is left out, so a
// literal names only the changes:
//
//	clinic.PatientUpdate{FirstName: api.Value("Ada"), Metadata: api.Null[clinic.Metadata]()}
//
// In your own structs, its JSON tag must contain omitzero, as in all update types of this
// module.
type Optional[T any] struct {
	value T
	state optionalState
}

type optionalState uint8

const (
	unset optionalState = iota
	null
	set
)

// Value returns an Optional that sets the field to v.
func Value[T any](v T) Optional[T] { return Optional[T]{value: v, state: set} }

// Null returns an Optional that sends null to clear the field.
func Null[T any]() Optional[T] { return Optional[T]{state: null} }

// Get returns the value and true if the field is set.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == set }

// IsZero reports whether the field is left out. The omitzero option of encoding/json calls it.
func (o Optional[T]) IsZero() bool { return o.state == unset }

// MarshalJSON writes the value, or null.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != set {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads a value as set, and null as cleared.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	if bytes.Equal(data, []byte("null")) {
		*o = Null[T]()
		return nil
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*o = Value(v)
	return nil
}

// String returns "unset", "null" or "set", but never the value, which may be patient data.
func (o Optional[T]) String() string {
	switch o.state {
	case null:
		return "null"
	case set:
		return "set"
	}
	return "unset"
}

// Format prints the state for every verb, but never the value.
func (o Optional[T]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }
