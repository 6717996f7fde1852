// Package engine describes inboxes that store the events they accept and also handle them.
// Packages memoryinbox, sqlinbox and riverinbox implement [Engine]. Open one of them to receive
// webhooks.
//
//	dead := engine.Filter{States: []engine.State{engine.StateDead}}
//	for event, err := range engine.All(ctx, inbox, dead) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(event.Key, event.Reason)
//	}
//
// Use this package to look into an inbox from an operations page, a tool or a health check. List
// events with [All], count them with [Engine.Count], and replay or discard dead letters with
// [Engine.Replay] and [Engine.Discard].
package engine

import (
	"context"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Engine is a [webhook.Inbox] that also handles its events. Packages memoryinbox,
// sqlinbox and riverinbox implement it.
//
// # Guarantees
//
// Every accepted event is handled at least once: until its handler returns without an error, or
// the event becomes a dead letter. It may be handled again after a crash between the handler's
// end and the record of it.
//
//   - Retries: a failed attempt is repeated after the waits of [webhook.RetryPolicy]. An error, a
//     panic, a runtime.Goexit and a timeout all count as failures. The documentation of the engine
//     names the clock of retries.
//   - Dead letters: an event becomes a dead letter if its last attempt fails, or if an error is
//     marked as [webhook.Permanent]. It stays until it is replayed or discarded.
//   - Crashes: if a worker dies, another worker handles its event, after a time that the engine
//     documents. The lost attempt counts, because the event itself may cause the crash. After the
//     last attempt the event becomes a dead letter with [webhook.ErrAbandoned].
//   - Order: with [webhook.Work].Order, events of one [webhook.OrderingKey] are handled one at a
//     time, the oldest waiting event first, by Delivery.OrderTime. A failing event blocks the
//     others of its key until it is handled or becomes a dead letter. An event that arrives after
//     a newer one was handled is out of order: see [webhook.Work].Stale.
//   - Encryption: bodies and error texts are stored only encrypted, bound to their key, in
//     tables, queues and jobs alike. Keys, types, clinic IDs, times, reasons, request IDs and
//     digests are stored in clear. A body stays encrypted with the key of its arrival. To retire
//     a key, call Reseal, a method of every engine that encrypts. An in-memory engine has no data
//     at rest.
//   - Retention: the key of a handled event stays for at least 30 days. Its body is deleted
//     immediately, or after a time that the engine documents.
//
// The documentation of each engine states its limits: the failures that it survives, whether
// several processes can share it, and whether it keeps order.
type Engine interface {
	webhook.Inbox

	// List returns a page of the events that match filter, in the order of their positions.
	// Waiting events are ordered by the time at which they are due, dead letters by the time of
	// their death. List does not decrypt bodies. It fails with [webhook.ErrInboxClosed]. See [All].
	List(ctx context.Context, filter Filter, page Page) ([]Event, error)

	// Count counts the events that match filter, but only the first most events. If most is 0, it
	// counts all of them. It fails with [webhook.ErrInboxClosed].
	Count(ctx context.Context, filter Filter, most int) (Counts, error)

	// Open returns an event with its body, and the error of a dead letter. Both may contain
	// patient data. It fails with [ErrNotStored] and [webhook.ErrInboxClosed], and with
	// [webhook.ErrBodyLost] if the body can no longer be decrypted.
	Open(ctx context.Context, key webhook.Key) (Event, error)

	// Finished returns one [Finished] for each key with this event ID, in any environment and of
	// any integration, if its event was handled, skipped or discarded. It knows a key at least as
	// long as Accept recognizes the event as a duplicate. The order is not defined. It fails with
	// [webhook.ErrInboxClosed].
	Finished(ctx context.Context, eventID string) ([]Finished, error)

	// Replay returns the dead letters that match filter to the queue, each with the full number
	// of attempts. It ignores all other events. It replays the 10,000 oldest dead letters first,
	// in order of OrderTime, then the next 10,000. With [webhook.Work].Order, a replayed event
	// keeps its place among the waiting and replayed events of its ordering key. It still runs
	// after events already handled.
	//
	// Replay returns the number of replayed events, even with an error. It fails with the error
	// of ctx or with [webhook.ErrInboxClosed].
	//
	// The filter needs Keys or Until. [Engine.Count] returns an Until. With Until, repeat the same
	// call to resume an interrupted replay: it replays each event once, however often you call it.
	Replay(ctx context.Context, filter Filter) (int, error)

	// Discard deletes the dead letters that match filter, with their bodies. It keeps their keys:
	// if the platform sends such an event again, it is a duplicate. Otherwise Discard works like
	// Replay.
	Discard(ctx context.Context, filter Filter) (int, error)

	// HandleNow makes events due immediately if they match filter and wait for a retry, and
	// returns their number. They keep their attempt counts. It ignores running events, events
	// already due, dead letters and events that wait only for an older event of their ordering
	// key. With [webhook.Work].Order, the event that blocks its key becomes due. Otherwise
	// HandleNow works like Replay, but an event that fails again waits for another retry. The same
	// call changes that event again if the retry is not beyond Until.
	HandleNow(ctx context.Context, filter Filter) (int, error)

	// CheckWrite reports whether the engine would store an event now. It commits a real write
	// over the same connections and locks as Accept, but changes no event. Processes do not wait
	// for each other, so they write no common row. It fails with [webhook.ErrInboxClosed], [webhook.ErrInboxFull] and any error
	// of a write, such as on a read-only server or a full disk, and with [ErrBusy] if the program
	// uses all connections. Each call costs a synced write, so call it every few seconds at most.
	CheckWrite(ctx context.Context) error

	// Stats counts the stored events of all processes. It fails with [webhook.ErrInboxClosed] and,
	// as CheckWrite, with [ErrBusy].
	Stats(ctx context.Context) (Stats, error)

	// Close stops accepting and starting events, and waits for running handlers until ctx ends.
	// Then it cancels the contexts of the handlers. An event that fails because of this is
	// returned: the attempt does not count, and another process or the next start handles the
	// event.
	//
	// A durable engine loses no event and returns nil, even if a handler continues after its
	// context was canceled. Any error is an error of the storage. An engine in memory has no next
	// start and reports the events that it loses. Calling Close again has no effect.
	Close(ctx context.Context) error
}

// Stats counts the events of an [Engine].
type Stats struct {
	// Waiting is the number of events to handle, including failed events that are due later.
	// Running is the number of events that are being handled. Dead is the number of dead letters.
	Waiting, Running, Dead int

	// Overdue is the number of handlers in this process that still run 5 seconds or more after
	// their timeout. While it equals [webhook.Work].Workers, this process handles no events.
	Overdue int

	// Oldest is the arrival time of the oldest waiting or running event. It is zero if there is
	// none. Its age grows if handlers are too slow or fail. A replay does not change the arrival.
	Oldest time.Time
}

// Counts is the result of [Engine.Count]: the matching events by type, clinic and reason.
type Counts struct {
	// Total is the number of matching events.
	Total int

	// Types and Clinics count the events of each type and clinic, including the empty text.
	Types   map[events.Type]int
	Clinics map[string]int

	// Causes groups the events by reason, including the empty text.
	Causes map[string]Cause

	// Oldest is the arrival time of the event that arrived first. It is zero without events.
	Oldest time.Time

	// Until is the position of the last counted event. Set it as [Filter].Until to match only
	// counted events. It is zero without events, and then a replay has nothing to do.
	Until Position
}

// Cause is the number of counted events with one reason.
type Cause struct {
	Events  int
	Types   map[events.Type]int
	Clinics map[string]int

	// First and Last are the earliest and the latest [Position].At of the events. For dead letters
	// these are the times at which the first and the last one died.
	First, Last time.Time
}

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
