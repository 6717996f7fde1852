package webhook

import (
	"strconv"
	"time"
)

// DeadLetter is an event that an [Engine] has given up. It prints as its
// [Delivery] does. The text of its Key, as a page shows it, is read back with
// [Key.UnmarshalText], for [Engine.Replay] and [Engine.Discard].
type DeadLetter struct {
	// Delivery is the event. Its Body is nil if it cannot be opened any more.
	Delivery

	// Attempts is how often it was tried.
	Attempts int

	// Reason describes why without anything of the event, as logs do.
	Reason string

	// Err is what the last attempt failed with; an engine that stores it keeps
	// the text only. It may repeat patient data if the handler's errors do.
	Err error

	// DiedAt is when it was given up.
	DiedAt time.Time
}

// UnfinishedError gives back what a [MemoryInbox] held when it was closed. It
// matches [ErrUnfinished].
type UnfinishedError struct {
	// Deliveries were acknowledged to the platform and not handled, dead
	// letters included; the oldest first.
	Deliveries []Delivery
}

// Error returns how many there are.
func (e *UnfinishedError) Error() string {
	return ErrUnfinished.Error() + ": " + strconv.Itoa(len(e.Deliveries))
}

// Unwrap returns [ErrUnfinished].
func (e *UnfinishedError) Unwrap() error { return ErrUnfinished }
