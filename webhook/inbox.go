package webhook

import "context"

// Inbox takes over verified events from a [Handler]. It is the whole contract
// between receiving and processing; how and where events are processed is the
// inbox's own matter, and another process may do it. What an inbox that also
// processes them promises is said in package engine.
//
// When Accept returns without an error, the event is safe: it survives whatever
// the inbox promises to survive, be it the end of the process or the loss of a
// disk. The handler acknowledges the event to the platform only then, and the
// platform never sends it again after that.
//
// Storing and finding out whether the event is already there are one step, by
// [Delivery.Key]: of any number of calls with one key, concurrent ones and ones
// on other machines included, one stores the event and all others report a
// duplicate, whether the event is still waiting, is being handled, was handled
// or was given up. Keys are remembered for at least as long as the platform may
// send the event again; 30 days, the time it keeps events, covers every way.
//
// An inbox stores events of any type, those it has never heard of included. It
// does not look into Body to decide whether to take it.
type Inbox interface {
	// Accept stores d durably, or reports that it is there already.
	//
	// It is called concurrently. ctx has the request's values, not its
	// cancellation, and a deadline that is shorter than the
	// platform's patience. Accept gives up when ctx ends; the handler does not
	// wait longer, and if the event was stored after all, the next attempt is a
	// duplicate.
	//
	// d.Body belongs to the inbox from the call on: the handler neither reads
	// nor changes it again. The inbox must not change it either as long as d
	// is shared.
	//
	// Any error, and a panic, means that the event is not, or not certainly,
	// stored; the answer makes the platform send it again. The error is logged: its
	// text must not repeat Body. One that every repetition will meet again matches
	// [ErrUnstorable].
	Accept(ctx context.Context, d Delivery) (Receipt, error)
}

// Receipt says what an [Inbox] did with an event.
type Receipt struct {
	// Duplicate reports that an event with this key was accepted before.
	Duplicate bool

	// Unchecked reports that the inbox keeps no record of keys, so that the event may
	// have been accepted before.
	Unchecked bool
}
