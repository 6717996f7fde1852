package engine

import "time"

// Failure is the record of a failed attempt in an [Engine]. It contains no text of the event or
// of the handler's error, so it is safe to show and log.
type Failure struct {
	// Attempt is the number of the attempt. It counts from 1 again after a replay.
	Attempt int `json:"attempt"`

	// At is the end of the attempt by the clock of the engine. If the worker died, it is the time
	// at which the engine noticed the death.
	At time.Time `json:"at"`

	// Duration is the run time of the handler. It is 0 if the worker died.
	Duration time.Duration `json:"duration"`

	// Reason is the result of [webhook.Attempt.Reason].
	Reason string `json:"reason"`

	// RequestID is the result of [webhook.Attempt.RequestID]. It may be empty.
	RequestID string `json:"request_id,omitempty"`
}
