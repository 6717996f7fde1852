package webhook

import (
	"errors"

	"github.com/dispensary-go/dispensary/events"
)

// Permanent marks an error that no further attempt can mend: the event becomes a
// dead letter at once. A nil error stays nil.
//
// Events whose body or data cannot be decoded need no mark: their errors are
// permanent by nature. What becomes of them is decided by people, who can
// [Engine.Replay] them once the program understands them.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports an error that no further attempt can mend.
func IsPermanent(err error) bool {
	var marked *permanentError
	var data *events.DataError
	return errors.As(err, &marked) || errors.As(err, &data) ||
		errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrNoEvent)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
