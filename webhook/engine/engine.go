package engine

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
)

// Engine is a [webhook.Inbox] that also handles its events. Packages memoryinbox,
// sqlinbox and riverinbox implement it.
//
// # What an engine promises
//
// Every accepted event is handled at least once: until its handler has returned
// without an error, or it is given up as a dead letter. It may be handled again
// after a crash between the handler's end and the record of it.
//
//   - A failed attempt is repeated after the waits of [webhook.RetryPolicy]. An
//     error, a panic, a runtime.Goexit and a time-out are failures alike. Retries
//     are due by the clock that the engine names.
//   - The last attempt, or an error marked as [webhook.Permanent], makes a dead
//     letter, which stays until it is replayed or discarded.
//   - An event whose worker died is handled by another one, after a time that the
//     engine names. The lost attempt counts, because the event itself may be what
//     kills: after the last one the event becomes a dead letter with
//     [webhook.ErrAbandoned].
//   - With [webhook.Work].Order, events of one [webhook.OrderingKey] are handled one
//     at a time, the oldest of those that wait first, by Delivery.OrderTime. One that
//     fails holds up the others of its key until it is handled or a dead letter. An
//     engine gives no order to what has not arrived yet and what has been handled:
//     see [webhook.Work].Stale.
//   - Bodies, and texts of errors, are only sealed wherever they are: in tables,
//     queues and jobs, bound to their key. In clear are keys, types, clinic ids,
//     times, reasons, request ids, and digests. An in-memory engine has nothing at rest.
//   - The key of a handled event stays for 30 days at least. Its body is deleted at
//     once, or after a time that the engine names.
//
// An engine says in its documentation where it promises less: what it survives,
// whether several processes may share it, and whether it keeps order.
type Engine interface {
	webhook.Inbox

	// List returns the events that filter matches: the first limit of them, which is 1
	// or more, that come after a position. They come in the order of their positions:
	// what waits by when it is due, dead letters by when they were given up. Bodies are
	// not opened. It fails with [webhook.ErrInboxClosed]. See [All].
	List(ctx context.Context, filter Filter, after Position, limit int) ([]Event, error)

	// Count counts the events that filter matches: the first most of them, or all of
	// them if most is 0. It fails with [webhook.ErrInboxClosed].
	Count(ctx context.Context, filter Filter, most int) (Counts, error)

	// Open returns an event with its body, and the error of a dead letter, both of which
	// may hold patient data. It fails with [ErrNotStored] and [webhook.ErrInboxClosed],
	// and with [webhook.ErrBodyLost] if the body cannot be opened any more.
	Open(ctx context.Context, key webhook.Key) (Event, error)

	// Finished returns a [Finished] for each key with this event ID whose event was handled,
	// skipped or discarded, in any environment and of any integration. It knows a key at least
	// as long as Accept recognizes the event as a duplicate. The order is not defined. It fails
	// with [webhook.ErrInboxClosed].
	Finished(ctx context.Context, eventID string) ([]Finished, error)

	// Replay returns the dead letters that match filter to the queue, each with the full
	// number of attempts. It takes the 10,000 that died first, replays these in order of
	// OrderTime, and goes on with the next 10,000. It ignores all other events. With order,
	// a replayed event keeps its place among the waiting and replayed events of its ordering
	// key. It still runs after events already handled. Replay returns the number of
	// replayed events, even with an error: that of ctx, or [webhook.ErrInboxClosed].
	//
	// The filter needs Keys, or an Until, which [Engine.Count] returns. With Until, a
	// replay that was interrupted is resumed by the same call: however often it is made,
	// each event is replayed once.
	Replay(ctx context.Context, filter Filter) (int, error)

	// Discard drops dead letters for good, bodies included; all else is as with Replay.
	// Their keys stay known: should the platform send such an event once more, it is a
	// duplicate.
	Discard(ctx context.Context, filter Filter) (int, error)

	// HandleNow makes events that wait for a retry due at once, and returns their number.
	// Attempts stay counted. It ignores events that run, are due already, are dead letters, or
	// wait only for an older event of their ordering key: with order, the event that holds up
	// its key becomes due. All else is as with Replay, but an event that fails again waits for
	// a retry again. The same call changes it once more if that retry is not beyond Until.
	HandleNow(ctx context.Context, filter Filter) (int, error)

	// CheckWrite reports whether the engine would store an event now. It commits a real
	// write in the way that Accept does, over the same connections and locks, but changes
	// no event. It fails with [webhook.ErrInboxClosed], [webhook.ErrInboxFull], and any
	// error that a write fails with, such as on a read-only server or a full disk. Each
	// call costs a synced write, so call it every few seconds at most.
	CheckWrite(ctx context.Context) error

	// Stats counts the stored events of all processes. It fails with
	// [webhook.ErrInboxClosed].
	Stats(ctx context.Context) (Stats, error)

	// Close stops the engine: nothing is accepted or begun any more, and what is
	// being handled may finish until ctx ends. Then the contexts of handlers end
	// too, and what fails by that is handed back: it was no attempt, and is
	// handled by another process or after the next start.
	//
	// A durable engine loses nothing by it and returns nil, even if a handler
	// went on beyond its context; anything else is an error of the storage. One
	// in memory has no next start and says what it loses. Closing again does
	// nothing.
	Close(ctx context.Context) error
}

// Stats counts the events of an [Engine].
type Stats struct {
	// Waiting is the number of events to handle, including failed events that are due later.
	// Running is the number of events that are being handled. Dead is the number of dead letters.
	Waiting, Running, Dead int

	// Overdue is the number of handlers in this process that run although their time ended 5
	// seconds ago or earlier. While it is [webhook.Work].Workers, this process handles no
	// events.
	Overdue int

	// Oldest is the arrival of the oldest waiting or running event. It is zero without one. Its
	// age grows if handlers are too slow or fail. A replay does not change the arrival.
	Oldest time.Time
}
