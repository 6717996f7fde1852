package webhook_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

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
		Handle:   func(context.Context, events.Event) error { return nil },
		Logger:   logger,
		Observer: webhook.Observer{AttemptEnd: func(_ context.Context, a webhook.Attempt) { handled <- a }},
	}})
	require.NoError(t, err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
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
}
