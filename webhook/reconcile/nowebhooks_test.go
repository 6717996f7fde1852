package reconcile_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

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
