package webhook

import "context"

// Inbox stores verified events of a [Handler]. It decides how and where they are handled. See
// package engine for the promises of an inbox that also handles them.
//
// The handler acknowledges an event once Accept has returned without an error, and the platform
// never sends it again. So the event must survive whatever the inbox promises to survive,
// such as a crash of the process.
//
// Accept recognizes duplicates by [Delivery.Key] in the step that stores the event: of all calls
// with one key, concurrent or on other machines, one stores the event and the others report a
// duplicate, whether the event is waiting, running, handled or dead. An inbox keeps keys for as
// long as the platform may send an event again. 30 days, the time it keeps events, is enough.
//
// An inbox stores events of any type, and does not decide by the body.
type Inbox interface {
	// Accept stores d durably, or reports a duplicate.
	//
	// It is called concurrently. ctx has the values of the request, not its cancellation, and
	// a deadline within the timeout of the platform. The handler does not wait longer. If
	// Accept has stored the event after all, the next attempt is a duplicate.
	//
	// The inbox owns d.Body. It must not change it as long as d is shared.
	//
	// After an error or a panic, the platform sends the event again. The error is logged, so
	// its text must not repeat the body. It matches [ErrUnstorable] if no attempt can
	// succeed.
	Accept(ctx context.Context, d Delivery) (Receipt, error)
}

// Receipt is the result of [Inbox].Accept.
type Receipt struct {
	// Duplicate reports that an event with this key was accepted before.
	Duplicate bool

	// Unchecked reports that the inbox keeps no keys, so the event may be a duplicate.
	Unchecked bool
}
