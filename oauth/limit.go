package oauth

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// admissionTime is how long an admission is valid: the limit applies to the time of requests.
const admissionTime = time.Second

// admission is a request that the limiter has permitted already.
type admission struct {
	until time.Time
	used  atomic.Bool
}

type admissionKey struct{}

// Admit waits until [Config.Limiter] permits a request to the token endpoint, and returns a
// context whose first request does not wait again if it is sent within a second. Callers that
// must hold a lock or a lease during the request can so wait before they take it. Without a
// limiter it returns ctx. The error is the limiter's.
func (c *Client) Admit(ctx context.Context) (context.Context, error) {
	if c.config.Limiter == nil {
		return ctx, ctx.Err()
	}
	if err := c.config.Limiter.Wait(ctx); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, admissionKey{}, &admission{until: time.Now().Add(admissionTime)}), nil
}

// admittingLimiter permits admitted requests at once.
type admittingLimiter struct{ inner api.Limiter }

// Wait implements [api.Limiter].
func (l admittingLimiter) Wait(ctx context.Context) error {
	if a, ok := ctx.Value(admissionKey{}).(*admission); ok && !a.used.Swap(true) && time.Now().Before(a.until) {
		return ctx.Err()
	}
	return l.inner.Wait(ctx)
}
