package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
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

	// Failures are the last failed attempts, up to [KeptFailures], the oldest first. A replay
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

// page is how many events are listed, replayed or discarded at a time.
const page = 100

// All ranges over the events that a filter matches, in the order of their positions. It
// reads them in pages, as it goes, and ends with the first error. What comes after it
// has begun is left out, so that what is replayed and dies again is not met again.
func All(ctx context.Context, of Engine, f Filter) iter.Seq2[Event, error] {
	return allAfter(ctx, of, f, Position{})
}

// allAfter is All for the events that come after a position.
func allAfter(ctx context.Context, of Engine, f Filter, after Position) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		bounded := f
		if f.Until.IsZero() {
			counts, err := of.Count(ctx, f, 0)
			if err != nil {
				yield(Event{}, err)
				return
			}
			if bounded.Until = counts.Until; counts.Total == 0 {
				return
			}
		}
		for after := after; ; {
			events, err := of.List(ctx, bounded, after, page)
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

// After returns the position after which an engine changes events in a state: all dead letters, and
// waiting events that are not due at now.
func After(state State, now time.Time) Position {
	if state == StateWaiting {
		return Position{At: now, Seq: math.MaxInt64}
	}
	return Position{}
}

// InBatches implements Replay, Discard and HandleNow of an engine. It selects the events in a
// state, after a position, that the filter matches. It calls change for one part of them after
// the other, the oldest events first, and returns the sum of the results, which are the numbers
// of changed events. A part has up to 100 Keys. InBatches checks ctx before each part. The
// context of change does not end with ctx, so InBatches counts every event that it changed.
//
// It lists events in windows of 10,000, by their positions, sorts a window by the times of its
// events, and changes the window before it lists the next one. A call whose time is short
// therefore makes progress, however many events there are. Sorting matters because an event that
// came late dies after a newer one of its ordering key.
//
// A filter has to say where it ends: it needs Keys or Until, or the error is an
// [*api.ArgumentError].
func InBatches(
	ctx context.Context, of Engine, f Filter, state State, after Position, change func(ctx context.Context, part Filter) (int, error),
) (total int, err error) {
	switch {
	case f.Keys == nil && f.Until.IsZero():
		return 0, &api.ArgumentError{Field: "engine.Filter.Until", Reason: "is missing, and so are Keys: Engine.Count says what a filter matches, and until where"}
	case f.States != nil && !slices.Contains(f.States, state):
		return 0, nil
	}
	f.States = []State{state}
	for places, err := range windows(ctx, of, f, after) {
		if err != nil {
			return total, err
		}
		for part := range places.parts() {
			if err := ctx.Err(); err != nil {
				return total, err
			}
			f.Keys = part
			n, err := change(context.WithoutCancel(ctx), f)
			total += n
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// window is the number of events that are listed before they are changed.
const window = 10_000

// place is the key of an event and its place in the order.
type place struct {
	key webhook.Key
	at  time.Time
}

type places []place

// parts sorts places by time and returns their keys in parts of a page. Without places it
// returns one part without keys, because a closed engine must report that it is closed.
func (p places) parts() iter.Seq[[]webhook.Key] {
	slices.SortStableFunc(p, func(a, b place) int { return a.at.Compare(b.at) })
	keys := make([]webhook.Key, len(p))
	for n, one := range p {
		keys[n] = one.key
	}
	if len(keys) == 0 {
		return slices.Values([][]webhook.Key{{}})
	}
	return slices.Chunk(keys, page)
}

// windows returns the events after a position that match a filter, in windows. A filter with Keys
// has one window.
func windows(ctx context.Context, of Engine, f Filter, after Position) iter.Seq2[places, error] {
	return func(yield func(places, error) bool) {
		var found places
		listed := false
		for part := range f.parts() {
			for e, err := range allAfter(ctx, of, part, after) {
				if err != nil {
					yield(nil, err)
					return
				}
				found, listed = append(found, place{e.Key, e.OrderTime()}), true
				if f.Keys == nil && len(found) == window {
					if !yield(found, nil) {
						return
					}
					found = nil
				}
			}
		}
		if len(found) > 0 || !listed {
			yield(found, nil)
		}
	}
}

// parts splits a filter of many keys.
func (f Filter) parts() iter.Seq[Filter] {
	return func(yield func(Filter) bool) {
		if f.Keys == nil {
			yield(f)
			return
		}
		part := f
		for part.Keys = range slices.Chunk(f.Keys, page) {
			if !yield(part) {
				return
			}
		}
	}
}
