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

// After returns the position after which an engine changes events in a state: all dead letters, and
// waiting events that are not due at now.
func After(state engine.State, now time.Time) engine.Position {
	if state == engine.StateWaiting {
		return engine.Position{At: now, Seq: math.MaxInt64}
	}
	return engine.Position{}
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
	ctx context.Context, of engine.Engine, f engine.Filter, state engine.State, after engine.Position, change func(ctx context.Context, part engine.Filter) (int, error),
) (total int, err error) {
	switch {
	case f.Keys == nil && f.Until.IsZero():
		return 0, &api.ArgumentError{Field: "engine.Filter.Until", Reason: "is missing, and so are Keys: set it to Counts.Until, which Engine.Count returns"}
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

// page is the number of events that are changed at a time.
const page = 100

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
func (s startingAfter) List(ctx context.Context, f engine.Filter, after engine.Position, limit int) ([]engine.Event, error) {
	if after.IsZero() {
		after = s.position
	}
	return s.Engine.List(ctx, f, after, limit)
}

// parts splits a filter of many keys.
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
