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

// State is how an [Event] stands.
type State string

// The states of an event.
const (
	StateWaiting State = "waiting" // to be handled, for the first time or again
	StateRunning State = "running" // being handled
	StateDead    State = "dead"    // given up: a dead letter
)

// Event is an event in an [Engine]. It prints as its [webhook.Delivery] does.
type Event struct {
	// Delivery is the event. Its Body is nil unless [Engine.Open] returned it.
	webhook.Delivery

	State State

	// OrderingKey is the result of [webhook.Work].Order. It is empty if the event waits for no other.
	OrderingKey webhook.OrderingKey

	// Attempts is the number of attempts, including a running one.
	Attempts int

	// Reason is the reason of the last failed attempt, without data of the event. It is empty if
	// no attempt failed. See [webhook.Attempt.Reason].
	Reason string

	// Failures are the last failed attempts, up to 5, the oldest first. A replay
	// does not clear them. An attempt that was handed back is not among them. An attempt whose
	// worker died is, with the reason of [webhook.ErrAbandoned].
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
	// At is the time at which a waiting event is due, and at which a dead letter died, in
	// microseconds by the clock of the engine. The engine chooses it for a running event.
	At time.Time

	// Seq orders events of one time.
	Seq int64
}

// Compare returns -1 if p comes before other, 1 if it comes after it, and else 0.
func (p Position) Compare(other Position) int {
	return cmp.Or(p.At.Compare(other.At), cmp.Compare(p.Seq, other.Seq))
}

// IsZero reports the zero value.
func (p Position) IsZero() bool { return p.At.IsZero() && p.Seq == 0 }

// String returns the position as text, which [Position.UnmarshalText] reads; empty for
// the zero value.
func (p Position) String() string {
	if p.IsZero() {
		return ""
	}
	return strconv.FormatInt(p.At.UnixMicro(), 10) + "." + strconv.FormatInt(p.Seq, 10)
}

// MarshalText returns what [Position.String] does. It never fails.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what [Position.MarshalText] writes. Anything else fails.
func (p *Position) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*p = Position{}
		return nil
	}
	at, seq, _ := strings.Cut(string(text), ".")
	micros, errAt := strconv.ParseInt(at, 10, 64)
	n, errSeq := strconv.ParseInt(seq, 10, 64)
	if errAt != nil || errSeq != nil {
		return errors.New("engine: text is not a position") // it could be anything
	}
	*p = Position{time.UnixMicro(micros).UTC(), n}
	return nil
}

// Filter selects events to list, count or change. An event must match all fields that are set. The
// zero value matches every event.
type Filter struct {
	// States limits it to events in one of them.
	States []State

	// Keys limits it to these events. Empty and not nil, it matches none.
	Keys []webhook.Key

	// Type, ClinicID and Reason are what the event has to have, byte for byte.
	Type     events.Type
	ClinicID string
	Reason   string

	// ID is a part of the text of the event's key, or of the request ID of one of its Failures,
	// byte for byte.
	ID string

	// ReceivedFrom and ReceivedBefore bound when the event arrived.
	ReceivedFrom, ReceivedBefore time.Time

	// GivenUpFrom and GivenUpBefore bound when a dead letter was given up. With one of them, no
	// other event matches.
	GivenUpFrom, GivenUpBefore time.Time

	// Until is the last position, as [Counts] has it. What dies after it was counted is
	// beyond it, and so is what was replayed and has died again.
	Until Position
}

// Matches reports that the filter matches an event. An engine that cannot ask its
// storage for as much asks this.
func (f Filter) Matches(e Event) bool {
	return (f.States == nil || slices.Contains(f.States, e.State)) &&
		(f.Keys == nil || slices.Contains(f.Keys, e.Key)) &&
		(f.Type == "" || f.Type == e.Type) &&
		(f.ClinicID == "" || f.ClinicID == e.ClinicID) &&
		(f.Reason == "" || f.Reason == e.Reason) &&
		(f.ID == "" || e.hasID(f.ID)) &&
		(f.ReceivedFrom.IsZero() || !e.ReceivedAt.Before(f.ReceivedFrom)) &&
		(f.ReceivedBefore.IsZero() || e.ReceivedAt.Before(f.ReceivedBefore)) &&
		(f.GivenUpFrom.IsZero() || e.State == StateDead && !e.Position.At.Before(f.GivenUpFrom)) &&
		(f.GivenUpBefore.IsZero() || e.State == StateDead && e.Position.At.Before(f.GivenUpBefore)) &&
		(f.Until.IsZero() || e.Position.Compare(f.Until) <= 0)
}

// hasID reports whether [Filter].ID matches.
func (e Event) hasID(part string) bool {
	return strings.Contains(e.Key.String(), part) ||
		slices.ContainsFunc(e.Failures, func(f Failure) bool { return strings.Contains(f.RequestID, part) })
}

// ErrNotStored is the error of [Engine.Open] for an event that was handled or discarded, or
// never accepted.
var ErrNotStored = errors.New("engine: the event is not stored")

// Finished is the end of an event that an [Engine] no longer stores.
type Finished struct {
	// Discarded reports that the event was discarded as a dead letter. Otherwise it was handled
	// or skipped.
	Discarded bool

	// At is the time of the end by the clock of the engine. It is zero if the engine does not
	// store it.
	At time.Time
}

// page is the number of events that All lists at a time.
const page = 100

// All ranges over the events that a filter matches, in the order of their positions. It
// reads them in pages, as it goes, and ends with the first error. What comes after it
// has begun is left out, so that what is replayed and dies again is not met again.
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
			events, err := of.List(ctx, f, after, page)
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
