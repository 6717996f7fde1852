package reconcile_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// An event that is gone between the list and its reading is a gap. If it was not
// gone after all, the next run has it.
func TestReconcilerReportsWhatIsGone(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 5)
	s.platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: 404, Operation: "events.get", Skip: 2, Times: 1})
	report := s.reconcile(t, nil)
	assert.Equal(t, slices.Delete(slices.Clone(keys), 2, 3), report.Recovered)
	require.Len(t, report.Gaps, 1)
	gap, gone := report.Gaps[0], s.platform.Events()[2]
	assert.Equal(t, gone.ID, gap.EventID)
	assert.Equal(t, gone.Type, string(gap.Type))
	assert.Equal(t, reconcile.Orders, gap.Group)
	assert.True(t, gap.From.Equal(gone.CreatedAt.Truncate(time.Millisecond)) && gap.To.Equal(gap.From))
	assert.Equal(t, gone.Type+" "+gone.ID+" of 2026-03-04T15:06:09Z", gap.String())
	s.clock.Advance(48 * time.Hour)
	assert.Equal(t, keys[2:3], s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

// An event whose time is up while the run is under way is gone for good.
func TestReconcilerComesTooLate(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	lost := s.happen(t, 2)
	s.clock.Advance(24 * time.Hour)
	keys := s.happen(t, 5)
	s.clock.Advance(29*24*time.Hour - time.Minute)
	report := s.reconcile(t, s.rewritten(func(r *http.Request, _ map[string]any) {
		if strings.HasSuffix(r.URL.Path, "/events/orders") {
			s.clock.Advance(time.Hour)
		}
	}))
	assert.Equal(t, keys, report.Recovered)
	require.Len(t, report.Gaps, 2)
	assert.Equal(t, []string{lost[0].EventID, lost[1].EventID}, []string{report.Gaps[0].EventID, report.Gaps[1].EventID})
	assert.Empty(t, s.reconcile(t, nil).Gaps)
	s.finish(t, keys...)
}

// A proxy that answers 404 to everything makes nothing be given up.
func TestReconcilerDoesNotTakeA404ForTheEnd(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 20)
	fault := s.platform.Fault(model.Fault{Effect: model.ProxyError, Status: 404, Operation: "events.get"})
	for range 2 {
		s.fails(t, api.ErrNotFound, nil)
		s.clock.Advance(48 * time.Hour)
	}
	assert.LessOrEqual(t, len(s.platform.Journal().Of("events.get")), 6)
	fault.Remove()
	assert.Equal(t, keys, s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

// What happened after the last run and before the oldest event that the platform still
// has is a gap that cannot be closed.
func TestReconcilerReportsTheGap(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	assert.Empty(t, s.reconcile(t, nil).Gaps)
	began := s.clock.Now()
	s.platform.Fault(model.Fault{Effect: model.DeliveryLost})
	s.clock.Advance(time.Hour)
	s.happen(t, 5) // forgotten
	s.clock.Advance(20 * 24 * time.Hour)
	keys := s.happen(t, 5)
	s.clock.Advance(20 * 24 * time.Hour)
	report := s.reconcile(t, nil)
	assert.Equal(t, keys, report.Recovered)
	require.Len(t, report.Gaps, 5)
	for i, group := range reconcile.Groups() {
		gap := report.Gaps[i]
		assert.Equal(t, reconcile.Gap{Group: group, From: began, To: s.clock.Now().Add(-30 * 24 * time.Hour)}, gap)
		assert.Equal(t, string(group)+" from 2026-03-04T15:06:07Z to 2026-03-14T16:06:17Z", gap.String())
	}
	assert.Empty(t, s.reconcile(t, nil).Gaps, "it is reported once")
	s.finish(t, keys...)
}
