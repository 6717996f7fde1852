package events

import (
	"errors"
	"fmt"
	"strconv"
)

// What [Parse] and [As] can fail with. No text repeats anything of the body.
var (
	// ErrMalformed: the body is not JSON. The error that matches it says at
	// which byte.
	ErrMalformed = errors.New("events: body is not valid JSON")

	// ErrNoEvent: the body is JSON, but none of the envelopes in use, or the
	// event in it has no id or no type. The error that matches it names the
	// missing one.
	ErrNoEvent = errors.New("events: body holds no event with an id and a type")

	// ErrNoData: the event came without data. Event lists leave it out; the
	// event read by its id has it.
	ErrNoData = errors.New("events: event has no data")

	// ErrOtherObject: the event is about another kind of object than the one
	// asked for, for example a patient where an order was asked for.
	ErrOtherObject = errors.New("events: event is about another kind of object")

	// ErrBadData: the event's data is no object, or it has no id and the API shows one.
	// The event itself stays readable, and so does its raw data.
	ErrBadData = errors.New("events: data cannot be decoded")
)

// Errors of an event without an id or a type. A number counts as an id, any other value that is
// not a string as missing.
var (
	errNoID   = fmt.Errorf("%w: the id is missing or empty", ErrNoEvent)
	errNoType = fmt.Errorf("%w: the type is missing or empty", ErrNoEvent)
)

// DataError is an event whose data could not be turned into the object asked
// for. It names the event and, where known, the field, and holds nothing of the
// data: what encoding/json says about a value can repeat it, so its error is
// not kept.
type DataError struct {
	// Type and ID name the event.
	Type Type
	ID   string

	// Field is the JSON path of the field that could not be decoded, empty
	// where it is not known.
	Field string

	// Err is [ErrNoData], [ErrOtherObject] or [ErrBadData].
	Err error
}

// Error returns type, id, reason and field.
func (e *DataError) Error() string {
	text := e.Err.Error() + ": " + string(e.Type) + " " + strconv.Quote(e.ID)
	if e.Field != "" {
		text += ", field " + e.Field
	}
	return text
}

// Unwrap returns Err.
func (e *DataError) Unwrap() error { return e.Err }
