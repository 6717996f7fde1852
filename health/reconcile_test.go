package health_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/health"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func TestReconcile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var stats reconcile.ClinicsStats
		check := health.Reconcile(func() reconcile.ClinicsStats { return stats }, time.Hour)
		status := func() health.Status { return check(t.Context()).Status }
		assert.Equal(t, health.OK, status(), "the first pass has not begun")
		time.Sleep(3*time.Hour + time.Second)
		result := check(t.Context())
		assert.Equal(t, health.Degraded, result.Status)
		assert.ErrorContains(t, result.Err, "nothing reconciles the environment")
		assert.NotContains(t, result.Details, "pass_seconds")

		stats.Taken, stats.PassBegan = time.Now(), time.Now().Add(-time.Minute)
		result = check(t.Context())
		assert.Equal(t, health.OK, result.Status)
		assert.Equal(t, 60, result.Details["pass_seconds"])

		since := time.Now()
		stats.Silent, stats.SilentSince, stats.Retries = 2, since, 3
		result = check(t.Context())
		assert.Equal(t, health.Degraded, result.Status)
		assert.ErrorContains(t, result.Err, "events come only by reconciliation")
		assert.Equal(t, since.UTC().Format(time.RFC3339), result.Details["silent_since"])
		assert.Equal(t, 2, result.Details["clinics_silent"])
		assert.Equal(t, 3, result.Details["events_retried"])

		disconnected := fmt.Errorf("no user: %w", api.ErrReauthorize)
		stats = reconcile.ClinicsStats{Taken: since, Failing: []reconcile.FailingClinic{{Since: since, Err: disconnected}, {Since: since, Err: errors.New("403")}}}
		assert.Equal(t, health.OK, status(), "it may pass")
		time.Sleep(25 * time.Hour)
		stats.Taken = time.Now()
		result = check(t.Context())
		assert.Equal(t, health.Degraded, result.Status)
		assert.ErrorContains(t, result.Err, "not been reconciled for a day")
		assert.Equal(t, 1, result.Details["clinics_failing"])
		assert.Equal(t, 1, result.Details["clinics_disconnected"])
		stats.Failing = stats.Failing[:1]
		assert.Equal(t, health.OK, status(), "only a user can connect the clinic")
	})
}
