package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// State is the state of an [Event] in an [Engine].
type State string

// The states of an event.
const (
	StateWaiting State = "waiting" // queued for its first attempt or a retry
	StateRunning State = "running" // in the handler
	StateDead    State = "dead"    // a dead letter
)

// Event is an event in an [Engine]. It prints as its [webhook.Delivery] does.
type Event struct {
	// Delivery is the event. Its Body is nil unless [Engine.Open] returned it.
	webhook.Delivery

	State State

	// OrderingKey is the result of [webhook.Work].Order. It is empty if the event waits for no
	// other event.
	OrderingKey webhook.OrderingKey

	// Attempts is the number of attempts, including a running attempt.
	Attempts int

	// Reason is the reason of the last failed attempt, without data of the event. It is empty if
	// no attempt failed. See [webhook.Attempt.Reason].
	Reason string

	// Failures are the last failed attempts, up to 5, oldest first. A replay does not clear them.
	// They include an attempt whose worker died, with the reason of [webhook.ErrAbandoned]. They
	// do not include an attempt that was returned because the engine closed.
	Failures []Failure

	// Err is the error of the last attempt of a dead letter, if [Engine.Open] returned the
	// event. A durable engine keeps its text only. It may repeat patient data.
	Err error

	// Position is the place of the event in lists.
	Position Position
}

// Position is a place in the lists of an [Engine]. The zero value is before every event. Its text
// is safe in URLs.
type Position struct {
	// At is the time at which a waiting event is due or a dead letter died, in microseconds by
	// the clock of the engine. For a running event the engine chooses the time.
	At time.Time

	// Seq orders events with the same time.
	Seq int64
}

// Compare returns -1 if p is before other, 1 if p is after other, and 0 if they are equal.
func (p Position) Compare(other Position) int {
	return cmp.Or(p.At.Compare(other.At), cmp.Compare(p.Seq, other.Seq))
}

// IsZero reports whether p is the zero value, before every event.
func (p Position) IsZero() bool { return p.At.IsZero() && p.Seq == 0 }

// String returns the position as text for [Position.UnmarshalText]. The text of the zero value is
// empty.
func (p Position) String() string {
	if p.IsZero() {
		return ""
	}
	return strconv.FormatInt(p.At.UnixMicro(), 10) + "." + strconv.FormatInt(p.Seq, 10)
}

// MarshalText returns the text of [Position.String]. It never fails.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses the text of [Position.MarshalText]. It fails for any other text.
func (p *Position) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Position{}
		return nil
	}
	at, seq, _ := strings.Cut(string(text), ".")
	micros, errAt := strconv.ParseInt(at, 10, 64)
	n, errSeq := strconv.ParseInt(seq, 10, 64)
	if errAt != nil || errSeq != nil {
		return errors.New("engine: text is not a position") // the text may contain secrets
	}
	*p = Position{time.UnixMicro(micros).UTC(), n}
	return nil
}

// Page is a part of a list of an [Engine].
type Page struct {
	// After is the position that precedes the page. The page contains only later events in its
	// order. Zero means the beginning of the list.
	After Position

	// Descending reverses the order of the list: the event with the last position comes first.
	Descending bool

	// Limit is the largest number of events. It must be at least 1.
	Limit int
}

// Contains reports whether the page can contain an event at a position, without its Limit.
func (p Page) Contains(at Position) bool {
	return p.After.IsZero() || p.Compare(at, p.After) > 0
}

// Compare orders two positions as the page does. See [Position.Compare].
func (p Page) Compare(a, b Position) int {
	if p.Descending {
		a, b = b, a
	}
	return a.Compare(b)
}

// Filter selects events to list, count or change. An event must match all fields that are set. The
// zero value matches every event.
type Filter struct {
	// States are the states to match. Nil matches every state.
	States []State

	// Keys are the keys to match. Nil matches every key. An empty slice matches no event.
	Keys []webhook.Key

	// Type, ClinicID and Reason must equal the values of the event, byte for byte. Empty matches
	// every value.
	Type     events.Type
	ClinicID string
	Reason   string

	// NoReason matches only events without a reason. False matches every event.
	NoReason bool

	// EventID must equal the event ID of the event's key. Engines look it up in an index. Empty
	// matches every event.
	EventID string

	// ID must be part of the text of the event's key, or of the request ID of one of its Failures,
	// byte for byte. Empty matches every event.
	ID string

	// ReceivedFrom (inclusive) and ReceivedBefore (exclusive) bound the arrival time. Zero means
	// no bound.
	ReceivedFrom, ReceivedBefore time.Time

	// GivenUpFrom (inclusive) and GivenUpBefore (exclusive) bound the time at which a dead letter
	// died. If one of them is set, only dead letters match. Zero means no bound.
	GivenUpFrom, GivenUpBefore time.Time

	// Until is the last position to match, usually [Counts].Until. Events that die after the
	// count are beyond it, even if they were counted and replayed before. Zero means no limit.
	Until Position
}

// Matches reports whether the filter matches an event. Engines call it if their storage cannot
// evaluate the filter.
func (f Filter) Matches(e Event) bool {
	return (f.States == nil || slices.Contains(f.States, e.State)) &&
		(f.Keys == nil || slices.Contains(f.Keys, e.Key)) &&
		(f.Type == "" || f.Type == e.Type) &&
		(f.ClinicID == "" || f.ClinicID == e.ClinicID) &&
		(f.Reason == "" || f.Reason == e.Reason) &&
		(!f.NoReason || e.Reason == "") &&
		(f.EventID == "" || f.EventID == e.Key.EventID) &&
		(f.ID == "" || e.hasID(f.ID)) &&
		(f.ReceivedFrom.IsZero() || !e.ReceivedAt.Before(f.ReceivedFrom)) &&
		(f.ReceivedBefore.IsZero() || e.ReceivedAt.Before(f.ReceivedBefore)) &&
		(f.GivenUpFrom.IsZero() || e.State == StateDead && !e.Position.At.Before(f.GivenUpFrom)) &&
		(f.GivenUpBefore.IsZero() || e.State == StateDead && e.Position.At.Before(f.GivenUpBefore)) &&
		(f.Until.IsZero() || e.Position.Compare(f.Until) <= 0)
}

// hasID reports whether part is in the key or in the request ID of a failure.
func (e Event) hasID(part string) bool {
	return strings.Contains(e.Key.String(), part) ||
		slices.ContainsFunc(e.Failures, func(f Failure) bool { return strings.Contains(f.RequestID, part) })
}

// ErrNotStored is the error of [Engine.Open] if the event was handled, discarded or never
// accepted.
var ErrNotStored = errors.New("engine: the event is not stored")

// ErrBusy is the error of a method of [Engine] that did not run before the end of its context,
// because the program uses all connections of the engine's pool. The storage itself may be healthy.
var ErrBusy = errors.New("engine: all connections to the storage are in use")

// ErrClaimLost is the [webhook.Attempt].Err of a lost outcome: another worker has claimed the event
// before it was recorded. This happens if the worker's process sent no heartbeat, or if the handler
// ran far beyond its timeout.
var ErrClaimLost = errors.New("engine: another worker has claimed the event as abandoned")

// ErrCheckpointHeld is the error of a claim while another replica has the checkpoint, and of a
// save after the claim has expired.
var ErrCheckpointHeld = errors.New("engine: checkpoint is held by another replica")

// Finished is the end of an event that an [Engine] no longer stores.
type Finished struct {
	// Discarded reports whether the event was discarded as a dead letter. If false, it was handled
	// or skipped.
	Discarded bool

	// At is the time of the end by the clock of the engine. It is zero if the engine does not
	// store it.
	At time.Time
}

// page is the number of events per List call of All.
const page = 100

// All iterates over the events that match f, in the order of their positions. It reads pages of
// 100 events as the loop proceeds, and ends with the first error.
//
// Without [Filter].Until, All ends at the last position that matched at the beginning. An event
// that you replay inside the loop therefore does not appear twice if it dies again.
func All(ctx context.Context, of Engine, f Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := f
		if f.Until.IsZero() {
			counts, err := of.Count(ctx, f, 0)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if f.Until = counts.Until; counts.Total == 0 {
				return
			}
		}
		for after := (Position{}); ; {
			events, err := of.List(ctx, f, Page{After: after, Limit: page})
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Position
			}
			if len(events) < page {
				return
			}
		}
	}
}
