package webhook_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

type begunKey struct{}

func begun(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

func hasBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) == true }

// The context of Begin reaches everything that is done for a request.
func TestHandlerGoesOnInTheContextOfBegin(t *testing.T) {
	t.Parallel()
	var inbox, observer bool
	r := newReceiver(t, func(c *webhook.Config) {
		c.Begin = func(r *http.Request) context.Context { return begun(r.Context()) }
		c.Inbox = inboxFunc(func(ctx context.Context, _ webhook.Delivery) (webhook.Receipt, error) {
			inbox = hasBegun(ctx)
			return webhook.Receipt{}, nil
		})
		observe := c.Observe
		c.Observe = func(ctx context.Context, o webhook.Observation) {
			observer = hasBegun(ctx)
			observe(ctx, o)
		}
	})
	w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.True(t, inbox)
	assert.True(t, observer)
}

// The context of Begin is that of the handler and of Observe, also where the
// handler is not called.
func TestAttemptGoesOnInTheContextOfBegin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		handled bool
	}{"handled": {nil, true}, "unreadable": {webhook.ErrBodyLost, false}} {
		var handler, observer bool
		var told webhook.Task
		worker, err := webhook.NewWorker(webhook.Work{
			Handle:  func(ctx context.Context, _ events.Event) error { handler = hasBegun(ctx); return nil },
			Begin:   func(ctx context.Context, t webhook.Task) context.Context { told = t; return begun(ctx) },
			Observe: func(ctx context.Context, _ webhook.Attempt) { observer = hasBegun(ctx) },
		})
		require.NoError(t, err)
		task := task(2)
		task.Err = c.err
		require.NoError(t, worker.Do(t.Context(), task, func(webhook.Attempt) error { return nil }))
		assert.Equal(t, c.handled, handler, name)
		assert.True(t, observer, name)
		assert.Equal(t, 2, told.Attempt, name)
		assert.Equal(t, task.Key, told.Key, name)
	}
}

// A Begin that fails, or has nothing to say, disturbs nobody.
func TestBeginDisturbsNobody(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func() context.Context{
		"panic": func() context.Context { panic(marked) },
		"nil":   func() context.Context { return nil },
	} {
		var out bytes.Buffer
		r := newReceiver(t, func(c *webhook.Config) {
			c.Begin, c.Logger = func(*http.Request) context.Context { return begin() }, loggers(&out)
		})
		w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
		assert.Equal(t, http.StatusOK, w.Code, name)
		told, _ := do(t, t.Context(), webhook.Work{
			Handle: succeed, Logger: loggers(&out),
			Begin: func(context.Context, webhook.Task) context.Context { return begin() },
		}, task(1), nil)
		assert.Equal(t, webhook.ResultHandled, told.Result, name)
		silent(t, out.String())
	}
}
