package events

import (
	"errors"
	"fmt"
)

// Errors of [Parse] and [As]. Their texts contain no part of the body.
var (
	// ErrMalformed: the body is not JSON. The text of the matching error contains the position
	// in bytes.
	ErrMalformed = errors.New("events: body is not valid JSON")

	// ErrNoEvent: the body is JSON, but contains no known envelope, or the event has no ID or
	// no type. The matching error names the missing member.
	ErrNoEvent = errors.New("events: body contains no event with an id and a type")

	// ErrNoData: the event has no data. Event lists leave it out. Read the event by its ID.
	ErrNoData = errors.New("events: event has no data")

	// ErrOtherObject: the event is about another kind of object than the requested one, for
	// example a patient instead of an order.
	ErrOtherObject = errors.New("events: event is about another kind of object")

	// ErrBadData: the event's data is not an object, or lacks an ID that the API documents. The
	// event and its raw data stay readable.
	ErrBadData = errors.New("events: data cannot be decoded")
)

// Errors of an event without an ID or a type. A number counts as an ID. Any other value that
// is not a string counts as missing.
var (
	errNoID   = fmt.Errorf("%w: the id is missing or empty", ErrNoEvent)
	errNoType = fmt.Errorf("%w: the type is missing or empty", ErrNoEvent)
)

// DataError reports that the data of an event cannot be decoded into the requested object. It
// names the event and, if known, the field. It contains no data: errors of encoding/json can
// repeat values, so it does not keep them.
type DataError struct {
	// Type and ID identify the event.
	Type Type
	ID   string

	// Field is the JSON path of the field that cannot be decoded, or empty if unknown.
	Field string

	// Err is [ErrNoData], [ErrOtherObject] or [ErrBadData].
	Err error
}

// Error returns the type, the ID, the reason and the field.
func (e *DataError) Error() string {
	if e == nil {
		return "<nil>"
	}
	text := fmt.Sprintf("%v: %s %q", e.Err, e.Type, e.ID)
	if e.Field != "" {
		text += ", field " + e.Field
	}
	return text
}

// Unwrap returns Err.
func (e *DataError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
