package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func TestRunRequiresIntegrations(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	broken := errors.New("no response")
	for _, ask := range []func(context.Context) ([]string, error){
		reconcile.Integrations(),
		func(context.Context) ([]string, error) { return nil, broken },
	} {
		_, err := s.reconciler(t, func(c *config) { c.Integrations = ask }).Run(t.Context())
		require.ErrorContains(t, err, "reconcile: run failed: integrations: ")
	}
	assert.Empty(t, s.platform.Journal.Requests())
	report := s.reconcile(t, func(c *config) {
		c.Integrations = func(ctx context.Context) ([]string, error) {
			clinic, err := s.client().Clinic.Get(ctx)
			return []string{clinic.IntegrationID}, err
		}
	})
	assert.Zero(t, report.Reads)
}

// A clinic with two integrations receives every event twice, but one read is enough. An event
// seen for only one integration must be recovered for the other.
func TestRunServesSeveralIntegrations(t *testing.T) {
	t.Parallel()
	s := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
	require.Len(t, s.integrations, 2)
	keys := s.happen(t, 5)
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	lost := s.happen(t, 5)
	report := s.reconcile(t, nil)
	assert.Equal(t, lost, report.Recovered)
	assert.Equal(t, 5, report.Reads)

	s.platform.ClearFaults()
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
	half := s.happen(t, 1)
	report = s.reconcile(t, nil)
	require.Len(t, report.Recovered, 1)
	assert.Contains(t, half, report.Recovered[0])

	s.broken.Store(true)
	failed := s.happen(t, 1)
	report = s.reconcile(t, nil)
	assert.ElementsMatch(t, failed, report.Recovered)
	assert.Zero(t, report.Reads)
	s.broken.Store(false)
	s.sendLate(t)
	s.finish(t, slices.Concat(keys, lost, half, failed)...)
}

// A webhook without an integration counts for all integrations.
func TestBareWebhookCountsForAllIntegrations(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 3)
	bare := keys[1]
	bare.IntegrationID = ""
	_, err := s.inbox.Accept(t.Context(), webhook.Delivery{Key: bare, Body: []byte(`{"event":{"id":"evt_1","type":"order.placed"}}`)})
	require.NoError(t, err)
	assert.Equal(t, []webhook.Key{keys[0], keys[2]}, s.reconcile(t, nil).Recovered)

	s.clock.Advance(24 * time.Hour) // requests the integrations again
	more := s.happen(t, 1)
	more[0].IntegrationID = ""
	report := s.reconcile(t, func(c *config) { c.Integrations = reconcile.Integrations("") })
	assert.Contains(t, report.Recovered, more[0])
}

// The integration in the delivery log takes precedence over the configured one.
func TestLogDeterminesIntegration(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	keys := s.happen(t, 4)
	bare := s.rewriting(func(r *http.Request, body map[string]any) {
		deleteFromLog(body, "integration_id")
	})
	for i := range keys {
		keys[i].IntegrationID = ""
	}
	s.integrations = []string{""}
	report := s.reconcile(t, func(c *config) { c.Integrations, c.Events = reconcile.Integrations("in_1"), bare })
	assert.Equal(t, keys, report.Recovered)
	s.finish(t, keys...)
}

// Without the log, or with a log without data or events, every event must be read.
func TestRunWorksWithoutLog(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	keys := s.happen(t, 5)
	report := s.reconcile(t, s.rewritten(func(_ *http.Request, body map[string]any) {
		deleteFromLog(body, "data")
	}))
	assert.Equal(t, keys, report.Recovered)
	assert.Equal(t, 5, report.Reads)
	assert.Len(t, report.FailedDeliveries, 5)

	more := s.happen(t, 5)
	s.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "webhook_deliveries.list"})
	report = s.reconcile(t, nil)
	assert.Equal(t, more, report.Recovered)
	assert.Equal(t, 5, report.Reads)
	assert.Empty(t, report.FailedDeliveries)
	require.ErrorIs(t, report.DeliveryLogErr, api.ErrServer)
	keys = append(keys, more...)

	s.platform.ClearFaults()
	more = s.happen(t, 1)
	report = s.reconcile(t, s.rewritten(func(_ *http.Request, body map[string]any) {
		for _, row := range items(body, "webhook_deliveries") {
			row["event_payload"] = map[string]any{}
		}
	}))
	assert.Equal(t, more, report.Recovered)
	require.ErrorContains(t, report.DeliveryLogErr, "delivery ")
	s.finish(t, append(keys, more...)...)
}

// Failed attempts must not be reported for a webhook that has arrived.
func TestReportIgnoresDeliveredWebhooks(t *testing.T) {
	t.Parallel()
	s := newFixture(t, dispensarytest.WithBehavior(behavior.DeliveryLogAttempt))
	s.broken.Store(true)
	keys := s.happen(t, 1)
	s.clock.Advance(time.Minute) // a second attempt
	s.broken.Store(false)
	s.clock.Advance(time.Hour)
	s.broken.Store(true)
	keys = append(keys, s.happen(t, 1)...)
	report := s.reconcile(t, nil)
	require.Len(t, report.FailedDeliveries, 2, "one per webhook, not one per attempt")
	late, first := report.FailedDeliveries[0], report.FailedDeliveries[1]
	assert.Equal(t, keys, []webhook.Key{first.Key, late.Key}, "latest first")
	assert.Equal(t, 2, first.Attempts)
	assert.False(t, first.Missed)
	assert.True(t, late.Missed)
	assert.Equal(t, keys[1:], report.Recovered)
	s.finish(t, keys...)
}

// A token without a scope, or a failing group, must not affect the other groups.
func TestFailedGroupAffectsNoOther(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 10)
	tokens := s.platform.TokenSource(model.User{}, "catalog:read", "clinic:read", "patients:read", "patients:treatment_plan_history")
	limited := func(c *config) {
		c.Events = s.client(dispensary.WithTokenSource(tokens)).Events
	}
	report, err := s.fails(t, api.ErrForbidden, limited)
	assert.ErrorContains(t, err, "reconcile: run failed: orders: ")
	assert.Len(t, report.Recovered, 8)
	for _, group := range report.Groups {
		assert.Equal(t, group.Group == events.GroupOrders, group.Err != nil, group.Group)
	}
	report = s.reconcile(t, func(c *config) {
		limited(c)
		c.Groups = slices.DeleteFunc(events.Groups(), func(g events.Group) bool { return g == events.GroupOrders })
	})
	assert.Empty(t, report.Recovered)
	assert.Len(t, s.reconcile(t, nil).Recovered, 2, "no event of the group counts as seen")
	s.finish(t, keys...)
}

func TestFirstRunLimitsRecovery(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.broken.Store(true)
	s.happen(t, 5) // in the log, but too old for FirstRun
	s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	s.happen(t, 5)
	s.clock.Advance(10 * time.Minute)
	keys := s.happen(t, 5)
	s.clock.Advance(24*time.Hour - 5*time.Minute)
	day := func(c *config) { c.FirstRun = 24 * time.Hour }
	assert.Equal(t, keys, s.reconcile(t, day).Recovered)
	assert.Empty(t, s.reconcile(t, day).Recovered, "the overlap ends at the first run")
	s.clock.Advance(48 * time.Hour)
	more := s.happen(t, 5)
	s.clock.Advance(48 * time.Hour)
	assert.Equal(t, more, s.reconcile(t, day).Recovered, "FirstRun applies only to the first run")
	s.finish(t, append(keys, more...)...)
}

// A new integration has missed earlier events. Before it is known, its failed deliveries are
// ignored.
func TestNewIntegrationRestartsCheckpoint(t *testing.T) {
	t.Parallel()
	s := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
	fault := s.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	keys := s.happen(t, 5)
	fault.Remove()
	s.clock.Advance(48 * time.Hour)
	s.broken.Store(true)
	keys = append(keys, s.happen(t, 5)...)
	one := func(c *config) { c.Integrations = reconcile.Integrations(s.integrations[0]) }
	report := s.reconcile(t, one)
	assert.Len(t, report.Recovered, 10)
	for _, notice := range report.FailedDeliveries {
		assert.Equal(t, s.integrations[0], notice.Key.IntegrationID)
	}
	assert.Empty(t, s.reconcile(t, one).Recovered)
	s.clock.Advance(24 * time.Hour) // requests the integrations again
	assert.Len(t, s.reconcile(t, nil).Recovered, 10)
	assert.Empty(t, s.reconcile(t, nil).Recovered)
	s.finish(t, keys...)
}

// A webhook may arrive just before its recovery.
func TestWebhookOvertakesRecovery(t *testing.T) {
	t.Parallel()
	s := newLossyFixture(t)
	keys := s.happen(t, 5)
	report := s.reconcile(t, func(c *config) {
		c.Inbox = hooked{s.inbox, func(_ context.Context, method string, d webhook.Delivery) (err error) {
			if method == "Accept" {
				_, err = s.inbox.Accept(t.Context(), d)
			}
			return err
		}}
	})
	assert.Equal(t, 5, report.Missed)
	assert.Empty(t, report.Recovered)
	s.finish(t, keys...)
}

// TestRunRecoversLongOutage breaks the receiver until the platform disables the endpoint. The
// endpoint stays disabled for 25 hours with 1,000 events, or 5,000 in full size. One run must
// recover all of them in order, with no more calls than events and pages. Late webhooks must
// be duplicates.
func TestRunRecoversLongOutage(t *testing.T) {
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

	s.platform.Journal.Reset()
	report := s.reconcile(t, nil)
	all, pages, reads := s.calls()
	t.Logf("%d events: %d calls, %d pages, %d reads: %s", missed+len(failed), all, pages, reads, report)
	assert.Equal(t, [3]int{pages + reads, report.Pages, report.Reads}, [3]int{all, pages, reads})
	assert.Equal(t, missed, reads, "events of the delivery log are not read")
	assert.LessOrEqual(t, all, missed+pages)
	assert.LessOrEqual(t, pages, 5*(missed/5/100+2)+1)
	require.Equal(t, missed+len(failed), len(report.Recovered))
	assert.Equal(t, keys[10:], report.Recovered, "in the order of the events")
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
	s.platform.Journal.Reset()
	report = s.reconcile(t, nil)
	assert.Empty(t, report.Recovered)
	_, pages, reads = s.calls()
	assert.Equal(t, [2]int{6, 0}, [2]int{pages, reads}, "only the overlap is listed again")
	state, err := s.inbox.ClaimCheckpoint(t.Context(), "us/sandbox/"+s.clinic, "other", time.Hour)
	require.NoError(t, err)
	assert.Less(t, len(state), 1000, "the checkpoint must stay small")
	assert.True(t, json.Valid(state))
	keys = append(keys, s.happen(t, 5)...)
	s.finish(t, keys...)
}

// A recovered event must be equal to the event of a webhook.
func TestRecoveredEventsEqualWebhooks(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	keys := s.happen(t, 5) // by webhook
	s.broken.Store(true)
	keys = append(keys, s.happen(t, 5)...) // from the delivery log
	s.platform.Journal.Reset()
	assert.Len(t, s.reconcile(t, nil).Recovered, 5)
	_, _, reads := s.calls()
	assert.Zero(t, reads)
	keys = append(keys, s.happen(t, 5)...)
	report := s.reconcile(t, nil)
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
