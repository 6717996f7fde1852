package webhook

import "time"

// Result is the recorded result of an attempt to handle an event.
type Result string

// The results of an attempt.
const (
	// ResultHandled: the handler succeeded. The engine keeps the key and deletes the body. If
	// Attempt.Object is set, it stores Attempt.CreatedAt as the newest time of the object.
	ResultHandled Result = "handled"

	// ResultSkipped: the event is stale and [Work.Stale] is [StalePolicySkip]. The event is done.
	ResultSkipped Result = "skipped"

	// ResultFailed: the event is due again after Attempt.RetryIn.
	ResultFailed Result = "failed"

	// ResultDead: the event is a dead letter.
	ResultDead Result = "dead"

	// ResultReturned: the handler stopped because its context ended, or the program has not
	// started yet. The event is due immediately, and the attempt does not count.
	ResultReturned Result = "returned"

	// ResultLost: the outcome could not be recorded, so the event is usually handled again. Only
	// observers see this result.
	ResultLost Result = "lost"
)

// Attempt is one attempt to handle an event. It prints as its [Delivery] does.
type Attempt struct {
	Delivery

	// Number counts from 1, and from 1 again after a replay.
	Number int

	Result Result

	// Stale reports whether a newer event of the same object was handled before.
	Stale bool

	// Object is the key of the event's object. It is empty if [Work.Stale] is [StalePolicyIgnore] or
	// the event has no time.
	Object OrderingKey

	// Err is the error of the handler or a [PanicError], and nil if the event is done. It may
	// repeat patient data.
	Err error

	// RetryIn is the wait until the next attempt of a failed event.
	RetryIn time.Duration

	// Duration is the run time of the handler.
	Duration time.Duration
}
