package transport

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// ensuring is a record that has to be there exactly once.
type ensuring[T any] struct {
	// operation creates the record; with key, the integrator's id, it is what
	// callers of one process ensure one after the other.
	operation *operation.Operation
	key       string

	find   func(ctx context.Context) (*T, error) // nil where there is none
	create func(ctx context.Context) (*T, error)
}

// looks are the waits before each look for a record whose creation had no clear
// answer: the platform may still be at work.
var looks = []time.Duration{0, 250 * time.Millisecond, time.Second, 2 * time.Second}

// maxCreates bounds the create calls of one Ensure.
const maxCreates = 3

// run returns the record, and whether it created it. At most maxCreates create calls
// are made; a create call without a clear answer is never repeated before a look, and
// never where the platform may still be at work on it: only after a 500 of the
// platform's, never after a lost answer or one that a gateway gave in its place.
func (e *ensuring[T]) run(ctx context.Context, c *Client) (value *T, created bool, err error) {
	unlock, err := c.ensuring.lock(ctx, e.operation.Name+" "+e.key)
	if err != nil {
		return nil, false, api.NewError(api.Error{
			Operation: e.operation.Name, Method: e.operation.Method, Route: e.operation.Route, Outcome: api.OutcomeNotSent,
		}, err, nil, nil)
	}
	defer unlock()
	if value, err = e.find(ctx); err != nil || value != nil {
		return value, false, err
	}
	for range maxCreates {
		value, err = e.create(ctx)
		switch {
		case err == nil:
			return value, true, nil
		case errors.Is(err, api.ErrInvalid):
			// Another process may have been faster.
			return e.orElse(ctx, err)
		case !errors.Is(err, api.ErrMaybeApplied):
			return nil, false, err
		}
		value, absent, lookErr := e.look(ctx)
		if lookErr != nil || value != nil {
			return value, value != nil, lookErr
		}
		if !absent || !failedForGood(err) {
			break // a second record could be under way
		}
	}
	return nil, false, &api.EnsureError{Operation: e.operation.Name, Reason: api.EnsureUnknown, Err: err}
}

// failedForGood reports that the platform itself answered that the call failed: it has
// stopped working on it. Every other server error may be that of a gateway,
// which gave up waiting while the platform goes on.
func failedForGood(err error) bool {
	var answer *api.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusInternalServerError && writtenByPlatform(answer.Body())
}

// orElse looks once more for the record, and returns why it was not created.
func (e *ensuring[T]) orElse(ctx context.Context, cause error) (*T, bool, error) {
	value, err := e.find(ctx)
	if err == nil && value == nil {
		err = cause
	}
	return value, false, err
}

// look searches until the record appears or the waits are over. It reports whether the
// last look found for certain that there is none.
func (e *ensuring[T]) look(ctx context.Context) (value *T, absent bool, err error) {
	for _, wait := range looks {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, false, nil // the create call's error says more than the end of ctx
		}
		value, err = e.find(ctx)
		if value != nil || isEnsureError(err) {
			return value, false, err
		}
		absent = err == nil
	}
	return nil, absent, nil
}

func isEnsureError(err error) bool {
	var e *api.EnsureError
	return errors.As(err, &e)
}
