package transport

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// ensuring ensures that a record exists exactly once.
type ensuring[T any] struct {
	// operation creates the record. key is the integrator's id. Callers in one process that
	// ensure the same operation and key run one after the other.
	operation *operation.Operation
	key       string

	ids    func(*T) (id, key string)
	find   func(ctx context.Context) (*T, error) // nil if there is none
	create func(ctx context.Context) (*T, error)
}

// looks contains the wait before each search for a record whose creation has an unknown
// outcome. The platform may still be processing it.
var looks = []time.Duration{0, 250 * time.Millisecond, time.Second, 2 * time.Second}

// run returns the record and reports whether it created the record. It makes at most one
// create call. If that call may have been applied and the record does not appear, no response
// allows another one. Whatever the status, a gateway may have written the response while the
// platform is still processing the call.
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
		// Another process may have created it first.
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

// orElse searches for the record once more. If there is none, it returns cause, the reason why
// the record was not created.
func (e *ensuring[T]) orElse(ctx context.Context, cause error) (*T, bool, error) {
	value, err := e.find(ctx)
	if err == nil && value == nil {
		err = cause
	}
	return value, false, err
}

// look searches until the record appears or all waits have passed.
func (e *ensuring[T]) look(ctx context.Context) (*T, error) {
	for _, wait := range looks {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil // the create call's error is more useful than ctx.Err
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
