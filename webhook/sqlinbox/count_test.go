package sqlinbox_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

func TestFinishedSearchesKeyIndex(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	plan := inbox.FinishedPlan(t)
	require.Len(t, plan, 2)
	assert.Contains(t, plan[1], "SEARCH i USING INDEX sqlite_autoindex_dispensary_inbox_1 (key>? AND key<?)")
}

// TestCountReadsNoRows counts dead letters from the table of causes, or from an index in the
// order of their groups.
func TestCountReadsNoRows(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	for step, filters := range map[string][]engine.Filter{
		"dispensary_inbox_causes":                    {{}, {ClinicID: "cl_1"}, {Type: "type"}, {Reason: "reason"}},
		"USING COVERING INDEX dispensary_inbox_dead": {{ID: "evt_1"}, {GivenUpFrom: time.Now()}, {ReceivedBefore: time.Now()}},
	} {
		for _, f := range filters {
			f.States = []engine.State{engine.StateDead}
			plan := inbox.CountPlan(t, f)
			assert.Contains(t, plan[1], step)
			assert.NotContains(t, strings.Join(plan, "\n"), "TEMP B-TREE")
		}
	}
}

func TestCountEndsAtLastEvent(t *testing.T) {
	t.Parallel()
	c := config(t, func(context.Context, events.Event) error { return webhook.Permanent(context.Canceled) })
	made, now := receivertest.Observe(&c.Work), time.Now()
	inbox := open(t, newPath(t), c.WithClock(func() time.Time { return now }, time.Minute))
	for range 3 {
		receivertest.Accept(t, inbox)
		<-made
	}
	for most, last := range []int64{3, 1, 2, 3} {
		counts, err := inbox.Count(t.Context(), engine.Filter{}, most)
		require.NoError(t, err)
		assert.Equal(t, engine.Position{At: now.UTC().Truncate(time.Microsecond), Seq: last}, counts.Until)
		assert.Equal(t, int(last), counts.Total)
	}
}
