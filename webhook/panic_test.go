package webhook_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// broken is an inbox that panics in one of its methods.
type broken struct {
	webhook.Reconcilable
	in string
}

func (b broken) panics(in string) {
	if b.in == in {
		panic(in)
	}
}

func (b broken) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	b.panics("Missing")
	return b.Reconcilable.Missing(ctx, keys)
}

func (b broken) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	b.panics("ClaimCheckpoint")
	return b.Reconcilable.ClaimCheckpoint(ctx, name, holder, ttl)
}

func (b broken) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	b.panics("SaveCheckpoint")
	return b.Reconcilable.SaveCheckpoint(ctx, name, holder, state, ttl)
}

func (b broken) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	b.panics("ReleaseCheckpoint")
	return b.Reconcilable.ReleaseCheckpoint(ctx, name, holder)
}

// No panic of the program's own ends the process.
func TestReconcilerSurvivesPanics(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"Missing", "ClaimCheckpoint", "SaveCheckpoint", "ReleaseCheckpoint", "Integrations"} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.platform.Fault(dispensarytest.Fault{Effect: dispensarytest.DeliveryLost})
			s.orders(t, 1)
			_, err := s.reconciler(t, func(c *webhook.ReconcilerConfig) {
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
		s := newScene(t)
		_, err := s.reconciler(t, func(c *webhook.ReconcilerConfig) {
			c.Inbox = broken{s.inbox, "SaveCheckpoint"}
			c.Integrations = func(ctx context.Context) ([]string, error) {
				<-ctx.Done() // while the claim is extended in vain
				return nil, ctx.Err()
			}
		}).Run(t.Context())
		require.ErrorIs(t, err, webhook.ErrCheckpointHeld)
		require.ErrorIs(t, err, webhook.ErrPanic)
		require.NoError(t, s.inbox.Close(t.Context()))
	})
}

// explosive is a log that panics.
type explosive struct{ slog.Handler }

func (explosive) Handle(context.Context, slog.Record) error { panic("no disk") }

func (e explosive) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e explosive) WithGroup(string) slog.Handler { return e }

// A log that panics loses its lines and nothing else.
func TestLogsThatPanic(t *testing.T) {
	t.Parallel()
	logger := slog.New(explosive{slog.NewTextHandler(io.Discard, nil)}).With("a", 1).WithGroup("b")
	handled := make(chan webhook.Attempt, 1)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
		Handle:  func(context.Context, events.Event) error { return nil },
		Logger:  logger,
		Observe: func(_ context.Context, a webhook.Attempt) { handled <- a },
	}})
	require.NoError(t, err)
	handler, err := webhook.NewHandler(webhook.Config{
		Environment: api.Environment{Region: api.US, Stage: api.Sandbox},
		Secrets:     []api.Secret{secret}, Challenge: challenge, Inbox: inbox, Logger: logger,
	})
	require.NoError(t, err)
	const body = `{"event":{"id":"e","type":"order.placed"}}`
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request(http.MethodPost, sign(secret, time.Now(), body), body))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Equal(t, webhook.ResultHandled, (<-handled).Result)
	require.NoError(t, inbox.Close(t.Context()))

	s := newScene(t)
	s.reconcile(t, func(c *webhook.ReconcilerConfig) { c.Logger = logger })
}

// A panic in Accept is an error of the run: the event is found again after each
// start, so that a process which ended by it would never run for long.
func TestReconcilerSurvivesPanicsOfOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.platform.Fault(dispensarytest.Fault{Effect: dispensarytest.DeliveryLost})
	s.orders(t, 1)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
		Handle: s.handle,
		Order:  func(webhook.Delivery, events.Event) webhook.Subject { panic("nil map") },
	}})
	require.NoError(t, err)
	_, err = s.reconciler(t, func(c *webhook.ReconcilerConfig) { c.Inbox = inbox }).Run(t.Context())
	require.ErrorIs(t, err, webhook.ErrPanic)
	require.ErrorIs(t, err, webhook.ErrInbox)
	require.NoError(t, inbox.Close(t.Context()))
}
