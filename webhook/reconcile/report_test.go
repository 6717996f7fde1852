package reconcile_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook/engine"
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
	s.fails(t, engine.ErrCheckpointHeld, loud)
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

// If the platform has disabled an endpoint, no webhook arrives and the delivery log stays
// empty. The loop must still find each event within its interval. The log, the report and the
// stats must show missing webhooks until the first webhook arrives, also in a new process.
func TestMissingWebhooksAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newReceivingFixture(t, 2)
		var log logtest.Buffer
		logged := func(c *reconcile.Config) { c.Logger = logtest.NewLogger(&log) }
		_, stop := f.reconcileAll(t, time.Hour, logged)
		time.Sleep(30 * time.Minute)
		failing := f.platform.Fault(model.Fault{Effect: model.EffectDeliveryForged})
		f.register(t, f.clinics[0])
		time.Sleep(time.Hour)
		stop()
		assert.Contains(t, log.Take(), "some had not arrived as webhooks")

		all, _ := f.reconcileAll(t, time.Hour, logged)
		disabled := f.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
		failing.Remove()
		began := time.Now()
		for range 24 {
			missed := f.register(t, f.clinics[0])
			time.Sleep(time.Hour)
			assert.True(t, f.wasHandled(missed), "found within the interval")
		}
		assert.Equal(t, 24, strings.Count(log.Take(), "webhooks do not arrive, events come only by reconciliation"))
		assert.Equal(t, 1, all.Stats().NoWebhooks)
		assert.Less(t, all.Stats().NoWebhooksSince, began)
		last := f.last(f.clinics[0])
		assert.Equal(t, 25, last.NoWebhooks.Events)
		assert.Equal(t, last.NoWebhooks.Since, all.Stats().NoWebhooksSince)

		disabled.Remove()
		require.True(t, f.wasHandled(f.register(t, f.clinics[0])))
		time.Sleep(time.Hour)
		assert.Zero(t, all.Stats().NoWebhooks)
		assert.Zero(t, f.last(f.clinics[0]).NoWebhooks)
		assert.NotContains(t, log.Take(), `"level":"WARN"`)
	})
}

// last returns the report of the last run over a clinic.
func (f *clinicsFixture) last(clinic string) reconcile.Report {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[clinic][len(f.runs[clinic])-1]
}

// A single lost or delayed webhook must not count. A recovered event is a warning unless the
// run is the first one.
func TestLostWebhookDoesNotCount(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var log bytes.Buffer
	logged := func(c *config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
	keys := s.orders(t, 1)
	report := s.reconcile(t, logged)
	assert.True(t, report.First)
	assert.Len(t, report.Recovered, 1)
	assert.NotContains(t, log.String(), "level=WARN")
	for range 3 {
		log.Reset()
		s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
		keys = append(keys, s.orders(t, 2)...)
		report = s.reconcile(t, logged)
		assert.Len(t, report.Recovered, 1)
		assert.Zero(t, report.NoWebhooks, "a later webhook arrived")
		assert.Contains(t, log.String(), "level=WARN")
	}
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
	keys = append(keys, s.orders(t, 1)...)
	report = s.reconcile(t, logged)
	assert.Equal(t, 1, report.NoWebhooks.Runs)
	assert.False(t, report.NoWebhooks.Counts())
	s.finish(t, keys...)
}

// A group that could not be read so far contains old webhooks. They are no evidence that webhooks
// arrive now.
func TestFirstReadOfGroupIsNoEvidence(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	fault := s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "events.list_orders"})
	keys := s.orders(t, 1) // arrives as a webhook
	s.fails(t, api.ErrServer, nil)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	keys = append(keys, s.happen(t, 2)...)
	report, _ := s.fails(t, api.ErrServer, nil)
	assert.Equal(t, 1, report.NoWebhooks.Runs)
	fault.Remove()
	report = s.reconcile(t, nil)
	assert.Equal(t, 1, report.NoWebhooks.Runs)
	s.finish(t, keys...)
}
