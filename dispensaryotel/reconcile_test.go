package dispensaryotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func TestReconcileCountsMissedEvents(t *testing.T) {
	t.Parallel()
	r := record(t)
	var own []error
	config := r.Reconcile(reconcile.Config{Environment: delivery("").Key.Environment, Observer: reconcile.Observer{
		RunEnd: func(_ context.Context, _ reconcile.Report, err error) { own = append(own, err) },
	}})
	refused := errors.New("Jane Doe")
	end := func(report reconcile.Report, err error) { config.Observer.RunEnd(t.Context(), report, err) }
	missed := []webhook.Key{{EventID: "evt_1"}, {EventID: "evt_2"}}
	end(reconcile.Report{Skipped: true}, nil)
	end(reconcile.Report{First: true, Recovered: missed}, nil)
	end(reconcile.Report{Duration: time.Second}, nil)
	end(reconcile.Report{Name: "us/sandbox/clinic-1", Recovered: missed, Gaps: []reconcile.Gap{{EventID: "evt_3"}, {EventID: "evt_4", Err: refused}}}, refused)
	assert.Equal(t, []error{nil, nil, nil, refused}, own)

	us := func(more ...string) map[string]string {
		all := map[string]string{"dispensary.region": "us", "dispensary.stage": "sandbox"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	assert.ElementsMatch(t, []point{
		{us(), 2}, {us("error.type", "*errors.errorString"), 1},
	}, r.points(t, "dispensary.reconcile.run.duration"))
	assert.ElementsMatch(t, []point{
		{us("dispensary.reconcile.result", "recovered"), 2}, {us("dispensary.reconcile.result", "lost"), 1},
	}, r.points(t, "dispensary.reconcile.events"))
	dumped := r.dump(t)
	for _, secret := range []string{"Jane", "clinic-1", "evt_"} {
		assert.NotContains(t, dumped, secret)
	}
}
