package reconcile_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func TestReportPrintsOnlyNumbers(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	s.happen(t, 7)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	s.happen(t, 5)
	s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 404, Operation: "events.get", Times: 1})
	report := s.reconcile(t, nil)
	text := "recovered 11 of 12 missed; pages: 6, reads: 5; gaps: 1; retried later: 1; failed deliveries: 7 (7 status 503)"
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%d"} {
		assert.Equal(t, text, fmt.Sprintf(verb, report))
	}
	listed := map[events.Group][3]int{}
	for _, group := range report.Groups {
		listed[group.Group] = [3]int{group.Listed, group.Missed, group.Recovered}
	}
	assert.Equal(t, map[events.Group][3]int{
		events.GroupClinicKeys: {0, 0, 0}, events.GroupPatients: {5, 5, 5}, events.GroupTreatmentPlans: {3, 3, 3},
		events.GroupOrders: {2, 2, 1}, events.GroupProducts: {2, 2, 2},
	}, listed)
	assert.Equal(t, "us/sandbox/"+s.clinic, report.Name)
	assert.Equal(t, s.clock.Now(), report.Started)
	assert.Zero(t, report.Duration, "the clock is frozen")

	notice := report.FailedDeliveries[0]
	line := fmt.Sprintf("%s %s: attempt 1: status 503", notice.Type, notice.Key)
	for _, verb := range []string{"%s", "%v", "%+v", "%#v"} {
		assert.Equal(t, line, fmt.Sprintf(verb, notice))
	}
	notice.Status = 0
	assert.Equal(t, fmt.Sprintf("%s %s: attempt 1: no response", notice.Type, notice.Key), notice.String())
	assert.Equal(t, "skipped: another replica has just reconciled the clinic", reconcile.Report{Skipped: true}.String())
}

// Logs, reports and checkpoints must contain no patient data and no message of the platform.
func TestReconcilerLeaksNoData(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	s.happen(t, 10)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	s.happen(t, 10)
	var out bytes.Buffer
	loud := func(c *config) { c.Logger = receivertest.Loggers(&out) }
	for _, f := range []model.Fault{
		{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.get", Messages: []string{"Canary said the platform"}, Skip: 1, Times: 1},
		{Effect: model.EffectErrorStatus, Status: 404, Operation: "events.get", Times: 1},
		{Effect: model.EffectTruncatedBody, Operation: "events.get", Skip: 1, Times: 1},
		{Effect: model.EffectErrorStatus, Status: 500, Operation: "webhook_deliveries.list", Messages: []string{"Canary said the platform"}, Times: 1},
	} {
		s.platform.Fault(f)
		report, err := s.reconciler(t, loud).Run(t.Context())
		for _, v := range []any{report, err, report.FailedDeliveries, report.Gaps, report.Groups, report.DeliveryLogErr} {
			receivertest.Say(&out, v)
		}
		s.clock.Advance(time.Second)
		s.happen(t, 5)
	}
	_, err := s.inbox.ClaimCheckpoint(t.Context(), "us/sandbox/"+s.clinic, "other", time.Hour)
	require.NoError(t, err)
	s.fails(t, reconcile.ErrCheckpointHeld, loud)
	state, err := s.inbox.ClaimCheckpoint(t.Context(), "us/sandbox/"+s.clinic, "other", time.Hour)
	require.NoError(t, err)
	out.Write(state)
	receivertest.Say(&out, s.reconciler(t, nil))

	text := out.String()
	for _, level := range []string{"level=DEBUG", "level=WARN", "level=ERROR", "level=INFO"} {
		assert.Contains(t, text, level)
	}
	assert.NotContains(t, text, "Canary")
	assert.NotContains(t, text, "neither 200 nor 201", "message of the platform")
	for _, patient := range s.platform.Patients.All() {
		assert.NotContains(t, text, patient.Email)
		assert.NotContains(t, text, patient.LastName)
	}
	s.platform.CheckNoLeak(t, text)
}
