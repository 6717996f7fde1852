package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// stalling is an inbox whose checkpoints fail once it stalls: with err, or without an answer if
// err is nil.
type stalling struct {
	reconcile.Inbox
	stalled *atomic.Bool
	err     error
}

func (s stalling) stall(ctx context.Context) error {
	if !s.stalled.Load() || s.err != nil {
		return s.err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s stalling) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	if s.stalled.Load() {
		return nil, s.stall(ctx)
	}
	return s.Inbox.ClaimCheckpoint(ctx, name, holder, ttl)
}

func (s stalling) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	if s.stalled.Load() {
		return s.stall(ctx)
	}
	return s.Inbox.SaveCheckpoint(ctx, name, holder, state, ttl)
}

func (s stalling) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	if s.stalled.Load() {
		return s.stall(ctx)
	}
	return s.Inbox.ReleaseCheckpoint(ctx, name, holder)
}

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
					c.Inbox = stalling{f.inbox, &stalled, err}
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
