package publish_test

import (
	"context"
	"testing"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func keys(n int) (all []webhook.Key) {
	for i := range n {
		all = append(all, delivery(i, "in_1").Key)
	}
	return all
}

// missedFixture is a platform without a webhook endpoint.
type missedFixture struct {
	platform *dispensarytest.Server
	broker   *recorder
}

func newMissedFixture(t *testing.T) *missedFixture {
	t.Helper()
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 15, 6, 7, 0, time.UTC))
	return &missedFixture{
		platform: dispensarytest.New(t, dispensarytest.WithClock(clock), dispensarytest.WithInMemory()),
		broker:   &recorder{},
	}
}

// happen places n orders, one minute apart, and returns the message IDs of their events.
func (f *missedFixture) happen(t *testing.T, n int) (ids []string) {
	t.Helper()
	for range n {
		_, event, err := f.platform.Orders.Place(f.platform.Patients.All()[0].ID, model.OrderCreate{})
		require.NoError(t, err)
		key := webhook.Key{Environment: f.platform.Site().Environment, EventID: event.ID, IntegrationID: "in_1"}
		ids = append(ids, key.String())
		f.platform.Clock.Advance(time.Minute)
	}
	return ids
}

// reconcile runs once and returns the IDs of the messages that it published.
func (f *missedFixture) reconcile(t *testing.T, inbox *publish.Inbox) (reconcile.Report, []string) {
	t.Helper()
	before := len(f.broker.ids())
	clinics, err := reconcile.New(reconcile.Config{
		Environment: f.platform.Site().Environment, Inbox: inbox, Now: f.platform.Clock.Now, List: reconcile.ClinicIDs("clinic"),
		Open: func(context.Context, string, api.Limiter) (reconcile.Clinic, error) {
			return reconcile.Clinic{Events: f.platform.Client(model.User{}).Events, Integrations: reconcile.Integrations("in_1")}, nil
		},
	})
	require.NoError(t, err)
	report, err := clinics.Run(t.Context(), "clinic")
	require.NoError(t, err)
	return report, f.broker.ids()[before:]
}

// A run publishes all events of its window again and reports them. With a checkpoint, the window
// is the overlap.
func TestReconcileRepublishesEvents(t *testing.T) {
	t.Parallel()
	f := newMissedFixture(t)
	inbox := newInbox(t, f.broker)
	early := f.happen(t, 2)
	report, got := f.reconcile(t, inbox)
	assert.Equal(t, early, got)
	assert.Equal(t, "recovered 2 of 2 missed; pages: 6, reads: 2; accepted before, perhaps: 2", report.String())

	f.platform.Clock.Advance(2 * time.Hour)
	late := f.happen(t, 2)
	report, got = f.reconcile(t, inbox)
	assert.Equal(t, append(early, late...), got, "the window must begin an hour before the newest event of the last run")
	assert.Equal(t, 4, report.Unchecked)
	_, got = f.reconcile(t, inbox)
	assert.Equal(t, late, got)

	_, got = f.reconcile(t, newInbox(t, f.broker))
	assert.Equal(t, append(early, late...), got, "the first run must publish all events")
}
