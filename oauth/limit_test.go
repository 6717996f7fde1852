package oauth_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

// countingLimiter records the priorities of requests and permits them until it is closed.
type countingLimiter struct {
	asked  []api.Priority
	closed bool
}

func (l *countingLimiter) Wait(ctx context.Context) error {
	l.asked = append(l.asked, priority.Of(ctx))
	if l.closed {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func newLimited(t *testing.T) (*oauth.Client, *countingLimiter, *oauthtest.Platform) {
	t.Helper()
	limiter, p := &countingLimiter{}, oauthtest.NewPlatform(oauthtest.RotateNever)
	return oauthtest.NewClient(t, p, func(c *oauth.Config) { c.Limiter = limiter }), limiter, p
}

func TestTokenRequestsWaitForLimiter(t *testing.T) {
	t.Parallel()
	client, limiter, p := newLimited(t)
	_, err := client.Exchange(t.Context(), api.NewSecret("code-1"))
	require.NoError(t, err)
	_, err = client.Refresh(api.ContextWithPriority(t.Context(), api.PriorityRefresh), oauthtest.FirstToken(0))
	require.NoError(t, err)
	require.NoError(t, client.Revoke(api.ContextWithPriority(t.Context(), api.PriorityEvent), oauthtest.FirstToken(0)))
	assert.Equal(t, []api.Priority{api.PriorityInteractive, api.PriorityRefresh, api.PriorityEvent}, limiter.asked)
	limiter.closed = true
	_, err = client.Refresh(t.Context(), oauthtest.FirstToken(0))
	require.ErrorIs(t, err, api.ErrNotSent)
	assert.Len(t, p.Routes(), 3)
}

func TestAdmittedRequestWaitsOnce(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		client, limiter, _ := newLimited(t)
		for _, delay := range []time.Duration{0, 2 * time.Second} {
			limiter.asked = nil
			ctx, err := client.Admit(t.Context())
			require.NoError(t, err)
			time.Sleep(delay)
			for range 2 {
				_, err = client.Refresh(ctx, oauthtest.FirstToken(0))
				require.NoError(t, err)
			}
			assert.Len(t, limiter.asked, map[time.Duration]int{0: 2, 2 * time.Second: 3}[delay])
		}
		limiter.closed = true
		_, err := client.Admit(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAdmitReturnsContextWithoutLimiter(t *testing.T) {
	t.Parallel()
	client := oauthtest.NewClient(t, oauthtest.NewPlatform(oauthtest.RotateNever))
	ctx, err := client.Admit(t.Context())
	require.NoError(t, err)
	assert.Equal(t, t.Context(), ctx)
}
