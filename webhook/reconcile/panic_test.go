package reconcile_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// broken is an inbox that panics in one of its methods.
type broken struct {
	reconcile.Inbox
	in string
}

func (b broken) panics(in string) {
	if b.in == in {
		panic(in)
	}
}

func (b broken) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	b.panics("Missing")
	return b.Inbox.Missing(ctx, keys)
}

func (b broken) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	b.panics("ClaimCheckpoint")
	return b.Inbox.ClaimCheckpoint(ctx, name, holder, ttl)
}

func (b broken) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	b.panics("SaveCheckpoint")
	return b.Inbox.SaveCheckpoint(ctx, name, holder, state, ttl)
}

func (b broken) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	b.panics("ReleaseCheckpoint")
	return b.Inbox.ReleaseCheckpoint(ctx, name, holder)
}

// No panic of the program's own ends the process.
func TestReconcilerSurvivesPanics(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"Missing", "ClaimCheckpoint", "SaveCheckpoint", "ReleaseCheckpoint", "Integrations"} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t)
			s.platform.Fault(model.Fault{Effect: model.DeliveryLost})
			s.orders(t, 1)
			_, err := s.reconciler(t, func(c *reconcile.Config) {
				c.Inbox = broken{s.inbox, in}
				if in == "Integrations" {
					c.Integrations = func(context.Context) ([]string, error) { panic(in) }
				}
			}).Run(t.Context())
			if in == "ReleaseCheckpoint" {
				require.NoError(t, err, "the claim ends by itself")
				return
			}
			require.ErrorIs(t, err, webhook.ErrPanic)
		})
	}
}

// The goroutine that extends the claim survives one as well.
func TestReconcilerSurvivesPanicsOfItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		_, err := s.reconciler(t, func(c *reconcile.Config) {
			c.Inbox = broken{s.inbox, "SaveCheckpoint"}
			c.Integrations = func(ctx context.Context) ([]string, error) {
				<-ctx.Done() // while the claim is extended in vain
				return nil, ctx.Err()
			}
		}).Run(t.Context())
		require.ErrorIs(t, err, reconcile.ErrCheckpointHeld)
		require.ErrorIs(t, err, webhook.ErrPanic)
		require.NoError(t, s.inbox.Close(t.Context()))
	})
}

// A panic in Accept is an error of the run: the event is found again after each
// start, so that a process which ended by it would never run for long.
func TestReconcilerSurvivesPanicsOfOrder(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.platform.Fault(model.Fault{Effect: model.DeliveryLost})
	s.orders(t, 1)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
		Handle: s.handle,
		Order:  func(webhook.Delivery, events.Event) webhook.OrderingKey { panic("nil map") },
	}})
	require.NoError(t, err)
	_, err = s.reconciler(t, func(c *reconcile.Config) { c.Inbox = inbox }).Run(t.Context())
	require.ErrorIs(t, err, webhook.ErrPanic)
	require.ErrorIs(t, err, webhook.ErrInbox)
	require.NoError(t, inbox.Close(t.Context()))
}

type panickingLog struct{ slog.Handler }

func (panickingLog) Handle(context.Context, slog.Record) error { panic("no disk") }

// A log that panics loses its lines and nothing else.
func TestReconcilerSurvivesPanicsOfItsLog(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.reconcile(t, func(c *reconcile.Config) { c.Logger = slog.New(panickingLog{slog.NewTextHandler(io.Discard, nil)}) })
}
