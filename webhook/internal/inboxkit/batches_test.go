package inboxkit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// graveyard is an engine of dead letters. The oldest dead letter has the newest event.
type graveyard struct {
	engine.Engine
	dead  []engine.Event
	lists int
}

func newGraveyard(n int) *graveyard {
	g := &graveyard{}
	for i := range n {
		e := engine.Event{Delivery: delivery(fmt.Sprint("evt_", i)), State: engine.StateDead}
		e.CreatedAt = now.Add(-time.Duration(i) * time.Second)
		e.Position = engine.Position{At: now.Add(time.Duration(i) * time.Second), Seq: int64(i)}
		g.dead = append(g.dead, e)
	}
	return g
}

func (g *graveyard) List(_ context.Context, f engine.Filter, page engine.Page) (found []engine.Event, err error) {
	g.lists++
	at, _ := slices.BinarySearchFunc(g.dead, page.After, func(e engine.Event, p engine.Position) int { return e.Position.Compare(p) })
	for ; at < len(g.dead) && len(found) < page.Limit; at++ {
		if e := g.dead[at]; page.Contains(e.Position) && f.Matches(e) {
			found = append(found, e)
		}
	}
	return found, nil
}

// until matches all dead letters.
func (g *graveyard) until() engine.Filter {
	return engine.Filter{Until: g.dead[len(g.dead)-1].Position}
}

// A call with a short deadline changes some dead letters and lists only a few before.
func TestInBatchesMakesProgress(t *testing.T) {
	t.Parallel()
	g := newGraveyard(25_000)
	ctx, cancel := context.WithCancel(t.Context())
	total, err := inboxkit.InBatches(ctx, g, g.until(), engine.StateDead, engine.Position{}, func(_ context.Context, part engine.Filter) (int, error) {
		cancel()
		return len(part.Keys), nil
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 100, total)
	assert.LessOrEqual(t, g.lists, 100)
}

func TestInBatchesSortsEachWindow(t *testing.T) {
	t.Parallel()
	g := newGraveyard(25_000)
	var changed []webhook.Key
	total, err := inboxkit.InBatches(t.Context(), g, g.until(), engine.StateDead, engine.Position{}, func(_ context.Context, part engine.Filter) (int, error) {
		changed = append(changed, part.Keys...)
		return len(part.Keys), nil
	})
	require.NoError(t, err)
	require.Equal(t, 25_000, total)
	for n, first := range map[int]int{0: 9_999, 9_999: 0, 10_000: 19_999, 19_999: 10_000, 20_000: 24_999, 24_999: 20_000} {
		assert.Equal(t, fmt.Sprint("evt_", first), changed[n].EventID)
	}
}

func TestInBatchesStartsAfterPosition(t *testing.T) {
	t.Parallel()
	g := newGraveyard(300)
	total, err := inboxkit.InBatches(t.Context(), g, g.until(), engine.StateDead, g.dead[249].Position, func(_ context.Context, part engine.Filter) (int, error) {
		assert.NotContains(t, part.Keys, g.dead[249].Key)
		return len(part.Keys), nil
	})
	require.NoError(t, err)
	assert.Equal(t, 50, total)
	assert.Equal(t, 1, g.lists, "earlier pages are not listed")
	for _, f := range []engine.Filter{{Until: g.until().Until, States: []engine.State{engine.StateWaiting}}, g.until()} {
		state := engine.StateDead
		if f.States == nil {
			state = engine.StateWaiting
		}
		total, err = inboxkit.InBatches(t.Context(), g, f, state, engine.Position{}, func(_ context.Context, part engine.Filter) (int, error) {
			return len(part.Keys), nil
		})
		require.NoError(t, err)
		assert.Zero(t, total, "other states are ignored")
	}
}

func TestInBatchesRejectsUnboundedFilter(t *testing.T) {
	t.Parallel()
	_, err := inboxkit.InBatches(t.Context(), newGraveyard(1), engine.Filter{ClinicID: "cl_1"}, engine.StateDead, engine.Position{}, nil)
	var rejected *api.ArgumentError
	require.ErrorAs(t, err, &rejected)
	assert.Contains(t, rejected.Field, "Until")
}

func TestInBatchesReportsClosedEngine(t *testing.T) {
	t.Parallel()
	g := newGraveyard(1)
	f := g.until()
	f.Reason = "other"
	_, err := inboxkit.InBatches(t.Context(), g, f, engine.StateDead, engine.Position{}, func(_ context.Context, part engine.Filter) (int, error) {
		assert.Empty(t, part.Keys)
		return 0, webhook.ErrInboxClosed
	})
	require.ErrorIs(t, err, webhook.ErrInboxClosed)
}
