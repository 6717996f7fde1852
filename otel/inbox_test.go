package dispensaryotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// holding is an engine that holds something.
type holding struct {
	engine.Engine
	stats engine.Stats
	err   error
}

func (h *holding) Stats(context.Context) (engine.Stats, error) { return h.stats, h.err }

func TestWatchInbox(t *testing.T) {
	t.Parallel()
	r := record(t)
	inbox := &holding{stats: engine.Stats{Waiting: 7, Running: 2, Dead: 1, Oldest: time.Now().Add(-90 * time.Minute)}}
	stop, err := r.WatchInbox("orders", inbox)
	require.NoError(t, err)
	byState := map[string]int{}
	for _, p := range r.points(t, "dispensary.inbox.events") {
		assert.Equal(t, "orders", p.attributes["dispensary.inbox.name"])
		byState[p.attributes["dispensary.inbox.state"]] = p.count
	}
	assert.Equal(t, map[string]int{"waiting": 7, "running": 2, "dead": 1}, byState)
	ages := r.points(t, "dispensary.inbox.age")
	require.Len(t, ages, 1)
	assert.InDelta(t, 5400, ages[0].count, 600)

	inbox.stats = engine.Stats{Oldest: time.Now().Add(time.Hour)} // by a clock that is ahead
	assert.Zero(t, r.points(t, "dispensary.inbox.age")[0].count)
	inbox.stats = engine.Stats{}
	assert.Zero(t, r.points(t, "dispensary.inbox.age")[0].count, "nothing waits")

	inbox.err = errors.New("away")
	var data metricdata.ResourceMetrics
	require.ErrorContains(t, r.metrics.Collect(t.Context(), &data), `inbox "orders": away`)
	require.NoError(t, stop())
	assert.Empty(t, r.points(t, "dispensary.inbox.events"))
}
