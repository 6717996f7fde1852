package oauth

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// admissionTime is the validity of an admission, because the limit applies when a request is
// sent.
const admissionTime = time.Second

// admission is a request that the limiter has already permitted.
type admission struct {
	until time.Time
	used  atomic.Bool
}

type admissionKey struct{}

// Admit waits until [Config.Limiter] permits a request to the token endpoint. The first
// request with the returned context then does not wait again if it is sent within 1 second. A
// caller can thus wait before it takes a lock or a lease. Without a limiter, Admit returns
// ctx. The error is the limiter's, or the error of ctx.
func (c *Client) Admit(ctx context.Context) (context.Context, error) {
	if c.config.Limiter == nil {
		return ctx, ctx.Err()
	}
	if err := c.config.Limiter.Wait(ctx); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, admissionKey{}, &admission{until: time.Now().Add(admissionTime)}), nil
}

// admittingLimiter permits an admitted request immediately.
type admittingLimiter struct{ inner api.Limiter }

// Wait implements [api.Limiter].
func (l admittingLimiter) Wait(ctx context.Context) error {
	if a, ok := ctx.Value(admissionKey{}).(*admission); ok && !a.used.Swap(true) && time.Now().Before(a.until) {
		return ctx.Err()
	}
	return l.inner.Wait(ctx)
}
