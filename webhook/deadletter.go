package webhook

import "time"

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
