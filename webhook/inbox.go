package webhook

import "context"

// Inbox stores verified events of a [Handler]. It decides how and where they are handled. For the
// guarantees of an inbox that also handles its events, see package engine.
//
// The handler acknowledges an event once Accept has returned without an error, and the platform
// never sends it again. Before that, Accept must store the event so that it survives all failures
// in the guarantees of the inbox, such as a crash of the process.
//
// Accept recognizes duplicates by [Delivery.Key], in the same step that stores the event. Of all
// calls with one key, even concurrent ones in other processes, one stores the event and the others
// report a duplicate, whether the event is waiting, running, handled or dead. An inbox keeps keys
// for as long as the platform may send an event again. 30 days are enough, because the platform
// keeps events for that time.
//
// An inbox stores events of any type, whatever their body.
type Inbox interface {
	// Accept stores d durably, or reports a duplicate.
	//
	// It is called concurrently. ctx has the values of the request, but not its cancellation,
	// and a deadline within the timeout of the platform. The handler does not wait longer. If
	// Accept stores the event anyway, the next delivery is a duplicate.
	//
	// The inbox owns d.Body. It must not change the body while d is shared.
	//
	// After an error or a panic, the platform sends the event again. The error is logged, so
	// its text must not repeat the body. Return an error that matches [ErrUnstorable] if no
	// delivery of the event can succeed.
	Accept(ctx context.Context, d Delivery) (Receipt, error)
}

// Receipt is the result of [Inbox].Accept.
type Receipt struct {
	// Duplicate reports whether an event with this key was accepted before.
	Duplicate bool

	// Unchecked reports whether the inbox keeps no keys. If true, the event may be a duplicate.
	Unchecked bool
}
