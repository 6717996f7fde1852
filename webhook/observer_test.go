package webhook_test

import (
	"bytes"
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
)

type begunKey struct{}

func begun(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

func hasBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) == true }

// The context of RequestStart reaches everything that is done for a request.
func TestHandlerUsesTheContextOfRequestStart(t *testing.T) {
	t.Parallel()
	var inbox, observer bool
	r := newFixture(t, func(c *webhook.HandlerConfig) {
		c.Observer.RequestStart = func(ctx context.Context, _ *http.Request) context.Context { return begun(ctx) }
		c.Inbox = inboxFunc(func(ctx context.Context, _ webhook.Delivery) (webhook.Receipt, error) {
			inbox = hasBegun(ctx)
			return webhook.Receipt{}, nil
		})
		observe := c.Observer.RequestEnd
		c.Observer.RequestEnd = func(ctx context.Context, o webhook.Observation) {
			observer = hasBegun(ctx)
			observe(ctx, o)
		}
	})
	w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
	assert.Equal(t, http.StatusOK, w.Code)
	assert.True(t, inbox)
	assert.True(t, observer)
}

// A RequestStart that fails, or returns nil, changes nothing.
func TestRequestStartThatFails(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func() context.Context{
		"panic": func() context.Context { panic(marked) },
		"nil":   func() context.Context { return nil },
	} {
		var out bytes.Buffer
		r := newFixture(t, func(c *webhook.HandlerConfig) {
			c.Observer.RequestStart, c.Logger = func(context.Context, *http.Request) context.Context { return begin() }, receivertest.Loggers(&out)
		})
		w := r.serve(t, request(http.MethodPost, sign(secret, now, orderBody), orderBody))
		assert.Equal(t, http.StatusOK, w.Code, name)
		silent(t, out.String())
	}
}
