package riverinbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// TestPeriodicReconcile recovers an event that no webhook told of, by a job that
// River's leader inserts.
func TestPeriodicReconcile(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	platform := dispensarytest.New(t)
	_, missed, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.NewOrder{})
	require.NoError(t, err)
	handled := make(chan string, 10)
	config := d.config(t, func(_ context.Context, e events.Event) error {
		handled <- e.ID
		return nil
	})
	inbox := open(t, d.pool(t), config)
	client := platform.Client(platform.Users()[0])
	reconciler, err := reconcile.New(reconcile.Config{
		Environment: platform.Site().Environment, Events: client.Events, Inbox: inbox,
		Integrations: func(ctx context.Context) ([]string, error) {
			clinic, err := client.Clinic.Get(ctx)
			return []string{clinic.IntegrationID}, err
		},
	})
	require.NoError(t, err)
	inbox.Client().PeriodicJobs().Add(inbox.PeriodicReconcile("us", reconciler, time.Hour))
	assert.Equal(t, missed.ID, <-handled)

	jobs, err := river.NewClient(riverpgxv5.New(d.reader(t)), &river.Config{})
	require.NoError(t, err)
	var done *rivertype.JobRow
	require.Eventually(t, func() bool {
		list, err := jobs.JobList(t.Context(), river.NewJobListParams().Kinds("dispensary_reconcile").States(rivertype.JobStateCompleted))
		if err != nil || len(list.Jobs) != 1 {
			return false
		}
		done = list.Jobs[0]
		return true
	}, time.Minute, 10*time.Millisecond)
	assert.JSONEq(t, `{"name":"us"}`, string(done.EncodedArgs))
	assert.Contains(t, string(done.Output()), "recovered 1 of 1 missed")

	_, err = inbox.Client().Insert(t.Context(), otherReconciliation{Name: "ca"}, &river.InsertOpts{Queue: "dispensary_webhooks_reconcile", MaxAttempts: 1})
	require.NoError(t, err)
	refused := job(t, d, rivertype.JobStateDiscarded)
	assert.Contains(t, refused.Errors[0].Error, `no reconciler "ca"`)
}

// otherReconciliation is what another release, or a replica that is configured in
// another way, may have inserted.
type otherReconciliation struct {
	Name string `json:"name"`
}

func (otherReconciliation) Kind() string { return "dispensary_reconcile" }
