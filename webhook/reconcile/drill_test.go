package reconcile_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testsize"
)

// TestReconciliationDrill: the receiver fails until the platform switches it off,
// and stays off for 25 hours in which a thousand events happen, or 5,000 in full
// size. One run recovers all of them, in order, with no more calls than events and
// pages, and what the platform sends late is known.
func TestReconciliationDrill(t *testing.T) {
	t.Parallel()
	missed := testsize.Of(1000, 5000)
	s := newFixture(t)
	keys := s.happen(t, 10)
	failed := s.switchOff(t)
	keys = append(keys, failed...)
	for range 25 {
		keys = append(keys, s.happen(t, missed/25)...)
		s.clock.Advance(time.Hour)
	}
	s.switchOn(t)

	s.platform.Journal().Reset()
	report := s.reconcile(t, nil)
	all, pages, reads := s.calls()
	t.Logf("%d events: %d calls, %d pages, %d reads: %s", missed+len(failed), all, pages, reads, report)
	assert.Equal(t, [3]int{pages + reads, report.Pages, report.Reads}, [3]int{all, pages, reads})
	assert.Equal(t, missed, reads, "what the delivery log has is not read again")
	assert.LessOrEqual(t, all, missed+pages)
	assert.LessOrEqual(t, pages, 5*(missed/5/100+2)+1)
	require.Equal(t, missed+len(failed), len(report.Recovered))
	assert.Equal(t, keys[10:], report.Recovered, "in the order in which it happened")
	assert.Empty(t, report.Gaps)
	require.NoError(t, report.DeliveryLogErr)

	require.Equal(t, len(failed), len(report.FailedDeliveries))
	for _, notice := range report.FailedDeliveries {
		assert.Equal(t, 503, notice.Status)
		assert.True(t, notice.Missed)
		assert.Contains(t, failed, notice.Key)
		assert.NotEmpty(t, notice.Reason)
	}

	s.sendLate(t)
	s.platform.Journal().Reset()
	report = s.reconcile(t, nil)
	assert.Empty(t, report.Recovered)
	_, pages, reads = s.calls()
	assert.Equal(t, [2]int{6, 0}, [2]int{pages, reads}, "nothing is walked twice but the overlap")
	state, err := s.inbox.ClaimCheckpoint(t.Context(), "us/sandbox/"+s.clinic, "other", time.Hour)
	require.NoError(t, err)
	assert.Less(t, len(state), 1000, "the checkpoint is small, whatever was missed")
	assert.True(t, json.Valid(state))
	keys = append(keys, s.happen(t, 5)...)
	s.finish(t, keys...)
}

// What the router is given cannot be told from what a webhook brings.
func TestRecoveredEventsAreThoseOfWebhooks(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	keys := s.happen(t, 5) // by webhook
	s.broken.Store(true)
	keys = append(keys, s.happen(t, 5)...) // from the delivery log
	s.platform.Journal().Reset()
	assert.Len(t, s.reconcile(t, nil).Recovered, 5)
	_, _, reads := s.calls()
	assert.Zero(t, reads)
	keys = append(keys, s.happen(t, 5)...)
	report := s.reconcile(t, func(c *config) { c.Name = "another" })
	assert.Len(t, report.Recovered, 5)
	s.finish(t, keys...)
	for _, e := range s.platform.Events() {
		for _, key := range s.keys(e) {
			got := s.bodies[key]
			assert.Equal(t, e.ID, got.ID)
			assert.Equal(t, e.Type, string(got.Type))
			assert.Equal(t, e.ClinicID, got.ClinicID)
			assert.Equal(t, key.IntegrationID, got.IntegrationID)
			assert.True(t, e.CreatedAt.Truncate(time.Millisecond).Equal(got.CreatedAt.Time))
			assert.JSONEq(t, string(e.Data), string(got.Data))
		}
	}
}
