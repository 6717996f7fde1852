package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// RunFlow runs work for an authorization flow once in all replicas that share the
// [tokenstore.Store], and returns its result to every caller. ran reports whether this call
// ran work. Use it if the same callback can arrive twice, as after a double click: a platform
// may revoke the tokens of a code that is exchanged again.
//
// flow identifies the flow, such as a hash of its state. user is the user to connect, for
// errors and logs. work exchanges the code and returns a short text, which RunFlow stores for
// the other callers. If work has not used the code, it returns "", and the next caller runs
// its own work.
//
// All other callers wait for the result, up to the [Config].LeaseTTL of the replica that runs
// work.
//
// Errors:
//
//   - [tokenstore.ErrNoResult]: the other replica stored no result in time, for example
//     because it crashed.
//   - [*StoreError]: the store failed before work ran.
//   - [*api.ArgumentError]: flow is invalid.
//   - The error of ctx.
//
// API section: "Authentication" 3.
func (c *Connections) RunFlow(ctx context.Context, user, flow string, work func(context.Context) (result string)) (result string, ran bool, err error) {
	claim := tokenstore.FlowClaim{Environment: c.Environment(), Flow: flow, Owner: rand.Text()}
	key := c.Key(user)
	if err := errors.Join(key.Validate(), claim.Validate()); err != nil {
		return "", false, err
	}
	result, err = c.claimFlow(ctx, key, claim)
	if err != nil || result != "" {
		return result, false, err
	}
	result = work(ctx)
	if err := c.endFlow(ctx, key, claim, result); err != nil {
		c.hooks.log(ctx, slog.LevelWarn, "could not store the result of an authorization flow", key, slog.Any("error", err))
	}
	return result, true, nil
}

// claimFlow claims a flow, or waits for the result of its owner.
func (c *Connections) claimFlow(ctx context.Context, key tokenstore.Key, claim tokenstore.FlowClaim) (result string, err error) {
	began := time.Now()
	for try := 1; ; try++ {
		claiming, cancel := withStoreTimeout(ctx)
		result, err = c.store.ClaimFlow(claiming, claim, c.config.LeaseTTL)
		cancel()
		patience, failure := c.config.answerTime(), storeError("ClaimFlow", key, err)
		switch {
		case err == nil, errors.Is(err, tokenstore.ErrNoResult):
			return result, err
		case errors.Is(err, tokenstore.ErrLeased):
			patience, failure = c.config.LeaseTTL+storeTimeout, tokenstore.ErrNoResult
		}
		if time.Since(began) > patience {
			return "", failure
		}
		if !pause(ctx, jitteredBackoff(try, firstPoll, lastPoll)) {
			return "", ctx.Err()
		}
	}
}

// endFlow stores the result of a flow, even if ctx has ended. It retries a failing store, because the other
// callers wait for the result.
func (c *Connections) endFlow(ctx context.Context, key tokenstore.Key, claim tokenstore.FlowClaim, result string) error {
	ctx, cancel := detach(ctx, c.config.answerTime())
	defer cancel()
	for try := 1; ; try++ {
		err := c.store.EndFlow(ctx, claim, result)
		if err == nil || !pause(ctx, jitteredBackoff(try, firstRewrite, lastPoll)) {
			return storeError("EndFlow", key, err)
		}
	}
}
