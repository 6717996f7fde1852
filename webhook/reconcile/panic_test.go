package reconcile_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// panicking is an inbox that panics in one of its methods.
func panicking(inbox reconcile.Inbox, in string) reconcile.Inbox {
	return hooked{inbox, func(_ context.Context, method string, _ webhook.Delivery) error {
		if method == in {
			panic(in)
		}
		return nil
	}}
}

// No panic of the program's own ends the process.
func TestReconcilerSurvivesPanics(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"Accept", "Missing", "ClaimCheckpoint", "SaveCheckpoint", "ReleaseCheckpoint", "Integrations", "Logger"} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			s := newLossyFixture(t)
			s.orders(t, 1)
			_, err := s.reconciler(t, func(c *config) {
				c.Inbox = panicking(s.inbox, in)
				switch in {
				case "Integrations":
					c.Integrations = func(context.Context) ([]string, error) { panic(in) }
				case "Logger":
					c.Logger = slog.New(panickingLog{slog.NewTextHandler(io.Discard, nil)})
				}
			}).Run(t.Context())
			if in == "ReleaseCheckpoint" || in == "Logger" {
				require.NoError(t, err, "the claim ends by itself; the log loses its lines")
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
		_, err := s.reconciler(t, func(c *config) {
			c.Inbox = panicking(s.inbox, "SaveCheckpoint")
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

type panickingLog struct{ slog.Handler }

func (panickingLog) Handle(context.Context, slog.Record) error { panic("no disk") }
