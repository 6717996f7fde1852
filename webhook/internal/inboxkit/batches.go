package inboxkit

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// After returns the start position for changes of events in state. It skips waiting events due
// at now or earlier. For all other states, it is the zero position.
func After(state engine.State, now time.Time) engine.Position {
	if state == engine.StateWaiting {
		return engine.Position{At: now, Seq: math.MaxInt64}
	}
	return engine.Position{}
}

// InBatches implements Replay, Discard and HandleNow of an engine. It selects the events in
// state after a position that match f. It calls change with one part at a time, oldest events
// first, and returns the sum of the results of change, the number of changed events. A part
// has up to 100 Keys. InBatches checks ctx before each part. The context of change does not
// end with ctx, so InBatches counts every event that it changed.
//
// It lists events by position in windows of 10,000, sorts each window by the times of its
// events, and changes it before it lists the next one. Therefore, a call with a short deadline
// makes progress with any number of events. Sorting matters because an event that arrives late
// becomes a dead letter after a newer event of its ordering key.
//
// A filter must have an end. If it has neither Keys nor Until, the error is an
// [*api.ArgumentError].
func InBatches(
	ctx context.Context, of engine.Engine, f engine.Filter, state engine.State, after engine.Position, change func(ctx context.Context, part engine.Filter) (int, error),
) (total int, err error) {
	switch {
	case f.Keys == nil && f.Until.IsZero():
		return 0, &api.ArgumentError{Field: "engine.Filter.Until", Reason: "must be set if Keys is nil: use Counts.Until of Engine.Count, which is zero if no event matched"}
	case f.States != nil && !slices.Contains(f.States, state):
		return 0, nil
	}
	f.States = []engine.State{state}
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

// page is the number of events in one change.
const page = 100

// window is the number of events listed before the first change.
const window = 10_000

// place is the key of an event and its place in the order.
type place struct {
	key webhook.Key
	at  time.Time
}

type places []place

// parts sorts places by time and returns their keys in parts of up to page keys. If there are
// no places, it returns one part without keys, because a closed engine must report that it is
// closed.
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

// windows returns the events after a position that match f, in windows. If f has Keys, all
// events are in one window.
func windows(ctx context.Context, of engine.Engine, f engine.Filter, after engine.Position) iter.Seq2[places, error] {
	return func(yield func(places, error) bool) {
		var found places
		listed := false
		for part := range parts(f) {
			for e, err := range engine.All(ctx, startingAfter{of, after}, part) {
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

// startingAfter is an engine whose lists start after a position.
type startingAfter struct {
	engine.Engine
	position engine.Position
}

// List implements [engine.Engine].
func (s startingAfter) List(ctx context.Context, f engine.Filter, page engine.Page) ([]engine.Event, error) {
	if page.After.IsZero() {
		page.After = s.position
	}
	return s.Engine.List(ctx, f, page)
}

// parts splits a filter with more than 100 keys.
func parts(f engine.Filter) iter.Seq[engine.Filter] {
	return func(yield func(engine.Filter) bool) {
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
