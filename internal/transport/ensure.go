package transport

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// ensuring is a record that has to be there exactly once.
type ensuring[T any] struct {
	// operation creates the record; with key, the integrator's id, it is what
	// callers of one process ensure one after the other.
	operation *operation.Operation
	key       string

	ids    func(*T) (id, key string)
	find   func(ctx context.Context) (*T, error) // nil where there is none
	create func(ctx context.Context) (*T, error)
}

// looks are the waits before each look for a record whose creation has no clear
// outcome. The platform may still be at work.
var looks = []time.Duration{0, 250 * time.Millisecond, time.Second, 2 * time.Second}

// run returns the record, and whether it created it. It makes at most one create call. If
// that may have been applied and the record does not appear, no response allows another
// one: whatever its status, a gateway may have written it while the platform goes on.
func (e *ensuring[T]) run(ctx context.Context, c *Client) (value *T, created bool, err error) {
	name := e.operation.Name + " " + e.key
	unlock, err := c.ensuring.lock(ctx, name)
	if err != nil {
		return nil, false, apierror.New(api.Error{
			Operation: e.operation.Name, Method: e.operation.Method, Route: e.operation.Route, Outcome: api.OutcomeNotSent,
		}, err, nil, nil)
	}
	defer unlock()
	if value, err = e.find(ctx); err != nil || value != nil {
		return value, false, err
	}
	if err = c.altered.find(c.config.Tokens, name); err != nil {
		return nil, false, err
	}
	value, err = e.create(ctx)
	switch {
	case err == nil:
		if id, key := e.ids(value); key != e.key {
			err = c.altered.add(c.config.Tokens, name, &api.EnsureError{Operation: e.operation.Name, Reason: api.EnsureReasonAltered, IDs: []string{id}})
			return nil, false, err
		}
		return value, true, nil
	case errors.Is(err, api.ErrValidation):
		// Another process may have been faster.
		return e.orElse(ctx, err)
	case !errors.Is(err, api.ErrMaybeApplied):
		return nil, false, err
	}
	value, lookErr := e.look(ctx)
	if lookErr == nil && value == nil {
		lookErr = &api.EnsureError{Operation: e.operation.Name, Reason: api.EnsureReasonUnknown, Err: err}
	}
	return value, value != nil, lookErr
}

// orElse looks once more for the record, and returns why it was not created.
func (e *ensuring[T]) orElse(ctx context.Context, cause error) (*T, bool, error) {
	value, err := e.find(ctx)
	if err == nil && value == nil {
		err = cause
	}
	return value, false, err
}

// look searches until the record appears or the waits are over.
func (e *ensuring[T]) look(ctx context.Context) (*T, error) {
	for _, wait := range looks {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil // the create call's error says more than the end of ctx
		}
		if value, err := e.find(ctx); value != nil || isEnsureError(err) {
			return value, err
		}
	}
	return nil, nil
}

func isEnsureError(err error) bool {
	var e *api.EnsureError
	return errors.As(err, &e)
}
