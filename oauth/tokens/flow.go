package tokens

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// FlowRetention is the shortest time for which a [Store] keeps a flow. It exceeds
// the 10 minutes for which the platform accepts a code.
const FlowRetention = 24 * time.Hour

// ErrNoResult is returned if the replica that claimed an authorization flow has not
// stored a result in time. It may have exchanged the code or not.
var ErrNoResult = errors.New("tokens: the replica that claimed the authorization flow stored no result")

// FlowClaim claims an authorization flow for one owner.
type FlowClaim struct {
	// Environment is the environment of the flow.
	Environment api.Environment

	// Flow identifies the flow in its environment: 1 to 255 bytes of printable ASCII.
	Flow string

	// Owner is a text of 1 to 255 bytes that no other caller uses.
	Owner string
}

// Validate returns an [*api.ArgumentError] if a store cannot keep the claim.
func (c FlowClaim) Validate() error {
	if err := c.Environment.Validate(); err != nil {
		return err
	}
	for field, id := range map[string]string{"Flow": c.Flow, "Owner": c.Owner} {
		if id == "" {
			return &api.ArgumentError{Field: "tokens.FlowClaim." + field, Reason: "is empty"}
		}
		for _, b := range []byte(id) {
			if b <= ' ' || b > '~' {
				return &api.ArgumentError{Field: "tokens.FlowClaim." + field, Reason: "must be printable ASCII without spaces"}
			}
		}
		if err := validateID("tokens.FlowClaim."+field, id); err != nil {
			return err
		}
	}
	return nil
}

// RunFlow runs work for an authorization flow once in all replicas that share the
// [Store], and returns its result to every caller. ran reports whether this call ran
// work. Use it if the same callback can arrive twice, as after a double click: a
// platform may revoke the tokens of a code that is exchanged again.
//
// flow identifies the flow, such as a hash of its state. user is the user to connect, for
// errors and logs. work exchanges the code and returns a short text, which RunFlow stores
// for the other callers. It returns "" if it has not used the code: the next caller then
// runs its own work.
//
// A caller that does not run work waits for the result, up to the [Config].LeaseTTL of
// the replica that does.
//
// Errors: [ErrNoResult] if that replica stored no result in time, for example because it
// crashed; [*StoreError] if the store fails before work runs; an [*api.ArgumentError]
// for an invalid flow; the error of ctx.
// API section: "Authentication" 3.
func (c *Connections) RunFlow(ctx context.Context, user, flow string, work func(context.Context) (result string)) (result string, ran bool, err error) {
	claim := FlowClaim{Environment: c.Environment(), Flow: flow, Owner: rand.Text()}
	key := c.Key(user)
	if err := errors.Join(key.Validate(), claim.Validate()); err != nil {
		return "", false, err
	}
	result, err = c.claimFlow(ctx, key, claim)
	if err != nil || result != "" {
		return result, false, err
	}
	result = work(ctx)
	if err := c.endFlow(context.WithoutCancel(ctx), key, claim, result); err != nil {
		c.hooks.log(ctx, slog.LevelWarn, "could not store the result of an authorization flow", key, slog.Any("error", err))
	}
	return result, true, nil
}

// claimFlow claims a flow, or waits for the result of its owner.
func (c *Connections) claimFlow(ctx context.Context, key Key, claim FlowClaim) (result string, err error) {
	began := time.Now()
	for try := 1; ; try++ {
		claiming, cancel := withStoreTimeout(ctx)
		result, err = c.store.ClaimFlow(claiming, claim, c.config.LeaseTTL)
		cancel()
		patience, failure := c.config.answerTime(), storeError("ClaimFlow", key, err)
		switch {
		case err == nil, errors.Is(err, ErrNoResult):
			return result, err
		case errors.Is(err, ErrLeased):
			patience, failure = c.config.LeaseTTL+storeTimeout, ErrNoResult
		}
		if time.Since(began) > patience {
			return "", failure
		}
		if !pause(ctx, jitteredBackoff(try, firstPoll, lastPoll)) {
			return "", ctx.Err()
		}
	}
}

// endFlow stores the result of a flow. It retries a failing store, because the other
// callers wait for the result.
func (c *Connections) endFlow(ctx context.Context, key Key, claim FlowClaim, result string) error {
	ctx, cancel := c.withAnswerTimeout(ctx)
	defer cancel()
	for try := 1; ; try++ {
		err := c.store.EndFlow(ctx, claim, result)
		if err == nil || !pause(ctx, jitteredBackoff(try, firstRewrite, lastPoll)) {
			return storeError("EndFlow", key, err)
		}
	}
}

// memoryFlow is a flow of a [MemoryStore].
type memoryFlow struct {
	owner, result string
	until         time.Time // end of the claim
}

// flowKey identifies a flow.
type flowKey struct {
	environment api.Environment
	flow        string
}

// ClaimFlow implements [Store].
func (s *MemoryStore) ClaimFlow(ctx context.Context, claim FlowClaim, ttl time.Duration) (string, error) {
	if err := errors.Join(ctx.Err(), claim.Validate()); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for key, flow := range s.flows {
		if now.Sub(flow.until) > FlowRetention {
			delete(s.flows, key)
		}
	}
	key := flowKey{claim.Environment, claim.Flow}
	flow, found := s.flows[key]
	switch {
	case !found:
		s.flows[key] = memoryFlow{owner: claim.Owner, until: now.Add(ttl)}
		return "", nil
	case flow.result != "":
		return flow.result, nil
	case flow.owner == claim.Owner:
		return "", nil
	case now.Before(flow.until):
		return "", ErrLeased
	}
	return "", ErrNoResult
}

// EndFlow implements [Store].
func (s *MemoryStore) EndFlow(ctx context.Context, claim FlowClaim, result string) error {
	if err := errors.Join(ctx.Err(), claim.Validate()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := flowKey{claim.Environment, claim.Flow}
	flow, found := s.flows[key]
	switch {
	case !found || flow.owner != claim.Owner || flow.result != "":
	case result == "":
		delete(s.flows, key)
	default:
		flow.result = result
		s.flows[key] = flow
	}
	return nil
}

// ClaimFlow implements [Store]. A flow contains no secret.
func (s *sealedStore) ClaimFlow(ctx context.Context, claim FlowClaim, ttl time.Duration) (string, error) {
	return s.inner.ClaimFlow(ctx, claim, ttl)
}

// EndFlow implements [Store].
func (s *sealedStore) EndFlow(ctx context.Context, claim FlowClaim, result string) error {
	return s.inner.EndFlow(ctx, claim, result)
}
