package transport

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// Ensuring is a record that has to be there exactly once.
type Ensuring[T any] struct {
	// Operation creates the record; with Key, the integrator's id, it names what
	// callers of one process ensure one after the other.
	Operation *operation.Operation
	Key       string

	// Find returns the record, or nil where there is none.
	Find func(ctx context.Context) (*T, error)

	// Create makes the record.
	Create func(ctx context.Context) (*T, error)
}

// looks are the waits before each look for a record whose creation had no clear
// answer: the platform may still be at work.
var looks = []time.Duration{0, 250 * time.Millisecond, time.Second, 2 * time.Second}

// maxCreates bounds the create calls of one Ensure.
const maxCreates = 3

// Ensure returns the record, and whether this call created it. The platform knows
// no idempotency keys: what makes it safe is that a create call without a clear
// answer is never repeated before a look, and never where the platform may still
// be at work on it: only after a 500 of its own, never after a lost answer or one
// that a gateway gave in its place.
func Ensure[T any](ctx context.Context, c *Client, e Ensuring[T]) (value *T, created bool, err error) {
	unlock, err := c.ensuring.lock(ctx, e.Operation.Name+" "+e.Key)
	if err != nil {
		return nil, false, api.NewError(api.Error{
			Operation: e.Operation.Name, Method: e.Operation.Method, Route: e.Operation.Route, Outcome: api.OutcomeNotSent,
		}, err, nil, nil)
	}
	defer unlock()
	if value, err = e.Find(ctx); err != nil || value != nil {
		return value, false, err
	}
	for range maxCreates {
		value, err = e.Create(ctx)
		switch {
		case err == nil:
			return value, true, nil
		case errors.Is(err, api.ErrInvalid):
			// Someone else may have been faster, in another process.
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
	return nil, false, &api.EnsureError{Operation: e.Operation.Name, Reason: api.EnsureUnknown, Err: err}
}

// failedForGood reports that the platform itself answered that the call failed: it is
// not at work on it any more. Every other server error may be that of a gateway,
// which gave up waiting while the platform goes on.
func failedForGood(err error) bool {
	var answer *api.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusInternalServerError && writtenByPlatform(answer.Body())
}

// orElse looks once more for the record, and returns why it was not created.
func (e *Ensuring[T]) orElse(ctx context.Context, cause error) (*T, bool, error) {
	value, err := e.Find(ctx)
	if err == nil && value == nil {
		err = cause
	}
	return value, false, err
}

// look searches until the record appears or patience ends. It tells whether the
// last look found for certain that there is none.
func (e *Ensuring[T]) look(ctx context.Context) (value *T, absent bool, err error) {
	for _, wait := range looks {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, false, nil // what is known of the create call says more than the end of ctx
		}
		value, err = e.Find(ctx)
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

// keyedLock lets one caller a key in. Views of a client share it.
type keyedLock struct {
	mu   sync.Mutex
	held map[string]*lockEntry
}

// lockEntry is a key that somebody holds or waits for.
type lockEntry struct {
	turn chan struct{} // holds a value while the key is held
	refs int
}

// lock waits for the key and returns the function that gives it back.
func (l *keyedLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lockEntry{}
	}
	entry := l.held[key]
	if entry == nil {
		entry = &lockEntry{turn: make(chan struct{}, 1)}
		l.held[key] = entry
	}
	entry.refs++
	l.mu.Unlock()
	select {
	case entry.turn <- struct{}{}:
		return func() { <-entry.turn; l.leave(key, entry) }, nil
	case <-ctx.Done():
		l.leave(key, entry)
		return nil, ctx.Err()
	}
}

// leave forgets a key that nobody holds or waits for.
func (l *keyedLock) leave(key string, entry *lockEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry.refs--; entry.refs == 0 {
		delete(l.held, key)
	}
}
