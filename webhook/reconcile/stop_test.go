package reconcile_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// A loop ends within seconds of its context, whatever the storage does.
func TestLoopEndsPromptly(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"no answer": nil, "held by another replica": reconcile.ErrCheckpointHeld} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newClinicsFixture(t, 10)
				var stalled atomic.Bool
				_, stop := f.reconcileAll(t, time.Hour, func(c *reconcile.Config) {
					c.Inbox = hooked{f.inbox, func(ctx context.Context, method string, _ webhook.Delivery) error {
						if !stalled.Load() || !strings.HasSuffix(method, "Checkpoint") {
							return nil
						}
						if err == nil {
							<-ctx.Done()
							return ctx.Err()
						}
						return err
					}}
					c.Open = func(ctx context.Context, _ string, _ api.Limiter) (reconcile.Clinic, error) {
						<-ctx.Done()
						return reconcile.Clinic{}, ctx.Err()
					}
				})
				time.Sleep(10 * time.Second)
				stalled.Store(true)
				ended := time.Now()
				stop()
				assert.Less(t, time.Since(ended), 10*time.Second)
			})
		})
	}
}
