package webhook

import "time"

// Result says in a word what became of an attempt to handle an event, and so
// what an engine has to record.
type Result string

// The results of an attempt.
const (
	// ResultHandled: the handler succeeded. The event is done; its key is kept
	// and its body is not. Where Attempt.Object is set, the engine records that
	// the object is as new as Attempt.CreatedAt.
	ResultHandled Result = "handled"

	// ResultSkipped: a newer event of the same object was handled before, and
	// [Work.Stale] says to skip it. The event is done.
	ResultSkipped Result = "skipped"

	// ResultFailed: the event is due again after Attempt.RetryIn.
	ResultFailed Result = "failed"

	// ResultDead: the event is a dead letter.
	ResultDead Result = "dead"

	// ResultReturned: the handler was told to stop and did, or the program has not
	// started yet. The event is due at once, and the attempt does not count.
	ResultReturned Result = "returned"

	// ResultLost: the outcome of the attempt could not be recorded. The event comes
	// again, and its handler usually is called again. Observers see this result, engines
	// do not.
	ResultLost Result = "lost"
)

// Attempt is one attempt to handle an event. It prints as its [Delivery] does.
type Attempt struct {
	Delivery

	// Number counts from 1, and from 1 again after a replay.
	Number int

	// Result is what became of it.
	Result Result

	// Stale reports that a newer event of the same object was handled before.
	Stale bool

	// Object is what the stale guard knows the event's object by; empty if
	// there is no guard, or the event does not say when it happened.
	Object OrderingKey

	// Err is what the handler returned, or a [PanicError]; nil if the event is
	// done. It may repeat patient data if the handler's errors do.
	Err error

	// RetryIn is the wait until the next attempt of an event that failed.
	RetryIn time.Duration

	// Duration is how long the handler took.
	Duration time.Duration
}
