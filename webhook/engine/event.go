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

// Event is an event that an [Engine] holds, as it is listed: nothing of its body is
// opened for that. It prints as its [webhook.Delivery] does. The text of its Key, as a
// page shows it, is read back with [webhook.Key.UnmarshalText].
type Event struct {
	// Delivery is the event. Its Body is nil unless [Engine.Open] returned it.
	webhook.Delivery

	State State

	// OrderingKey is what it is kept in order by; empty where it waits for no other.
	OrderingKey webhook.OrderingKey

	// Attempts is how often it was tried, an attempt that is under way included.
	Attempts int

	// Reason says why the last attempt failed without anything of the event, as logs
	// do; empty if none has. See [webhook.Attempt.Reason].
	Reason string

	// Err is what the last attempt of a dead letter failed with, if [Engine.Open]
	// returned the event; an engine that stores it keeps the text only. It may repeat
	// patient data if the handler's errors do.
	Err error

	// Position is the place of the event in lists.
	Position Position
}

// Position is a place in the order of what an [Engine] lists. The zero value is before
// everything. Its text is made for addresses.
type Position struct {
	// At is when an event that waits is due, and when a dead letter was given up, in
	// microseconds by the clock of the engine. For one that is being handled it is the
	// engine's own.
	At time.Time

	// Seq tells events of one time apart.
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

// Filter says which events are listed, counted, replayed or discarded: those that match
// all that is set. The zero value matches everything that is held.
type Filter struct {
	// States limits it to events in one of them.
	States []State

	// Keys limits it to these events. Empty and not nil, it matches none.
	Keys []webhook.Key

	// Type, ClinicID and Reason are what the event has to have, byte for byte.
	Type     events.Type
	ClinicID string
	Reason   string

	// ReceivedFrom and ReceivedBefore bound when the event arrived.
	ReceivedFrom, ReceivedBefore time.Time

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
		(f.ReceivedFrom.IsZero() || !e.ReceivedAt.Before(f.ReceivedFrom)) &&
		(f.ReceivedBefore.IsZero() || e.ReceivedAt.Before(f.ReceivedBefore)) &&
		(f.Until.IsZero() || e.Position.Compare(f.Until) <= 0)
}

// Counts is how many events a [Filter] matches.
type Counts struct {
	Total int

	// Types, Clinics and Reasons are how many of them have each type, clinic and reason;
	// empty texts included.
	Types   map[events.Type]int
	Clinics map[string]int
	Reasons map[string]int

	// Oldest is when the one arrived that arrived first; zero if there is none.
	Oldest time.Time

	// Until is the position of the last that was counted: with it the filter matches
	// these and no others. It is zero if there is none.
	Until Position
}

// Add counts n events, of which the first arrived at oldest.
func (c *Counts) Add(t events.Type, clinicID, reason string, n int, oldest time.Time) {
	if c.Total == 0 {
		c.Types, c.Clinics, c.Reasons = map[events.Type]int{}, map[string]int{}, map[string]int{}
	}
	c.Total += n
	c.Types[t] += n
	c.Clinics[clinicID] += n
	c.Reasons[reason] += n
	if c.Oldest.IsZero() || oldest.Before(c.Oldest) {
		c.Oldest = oldest
	}
}

// ErrNotHeld is returned by [Engine.Open] for an event that the engine does not hold: it
// was handled or discarded, or never came.
var ErrNotHeld = errors.New("engine: no such event is held")

// page is how many events are listed, replayed or discarded at a time.
const page = 100

// All ranges over the events that a filter matches, in the order of their positions. It
// reads them in pages, as it goes, and ends with the first error. What comes after it
// has begun is left out, so that what is replayed and dies again is not met again.
func All(ctx context.Context, of Engine, f Filter) iter.Seq2[Event, error] {
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
		for after := (Position{}); ; {
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

// InBatches is what an engine replays and discards with: it calls change for one part
// after the other of the dead letters that the filter selects, those of the oldest events
// first, and adds up what it returns, how many it changed. The part has at most as many
// Keys as a page. It looks at ctx before each part, whose own context does not end with
// it: what is counted was done, and nothing else.
//
// It lists dead letters in windows of 10,000, by their positions, sorts a window by the times
// of its events, and changes the window before it lists the next one. A call whose time is
// short therefore makes progress, however many dead letters there are. Sorting matters
// because an event that came late dies after a newer one of its ordering key.
//
// A filter has to say where it ends: it needs Keys or Until, or the error is an
// [*api.ArgumentError].
func InBatches(ctx context.Context, of Engine, f Filter, change func(ctx context.Context, part Filter) (int, error)) (total int, err error) {
	switch {
	case f.Keys == nil && f.Until.IsZero():
		return 0, &api.ArgumentError{Field: "engine.Filter.Until", Reason: "is missing, and so are Keys: Engine.Count says what a filter matches, and until where"}
	case f.States != nil && !slices.Contains(f.States, StateDead):
		return 0, nil
	}
	f.States = []State{StateDead}
	for places, err := range windows(ctx, of, f) {
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

// window is the number of dead letters that are listed before they are changed.
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

// windows returns the dead letters that match a filter, in windows. A filter with Keys has one
// window.
func windows(ctx context.Context, of Engine, f Filter) iter.Seq2[places, error] {
	return func(yield func(places, error) bool) {
		var found places
		listed := false
		for part := range f.parts() {
			for e, err := range All(ctx, of, part) {
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
