package transport

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror"
)

// Ensuring ensures that a record exists exactly once.
type Ensuring[T any] struct {
	// Call creates the record.
	Call Call

	// ID is the metadata id of the record.
	ID string

	// IDs returns the platform's id and the metadata id of a record.
	IDs func(*T) (id, metadataID string)

	// Find returns the record with the metadata id ID, or nil if there is none. Its error ends
	// the call.
	Find func(context.Context) (*T, error)

	// Get returns the record with an id of the platform.
	Get func(ctx context.Context, id string) (*T, error)

	create func(context.Context) (*T, error) // sends Call
}

// looks contains the wait before each search for a record whose creation has an unknown
// outcome. The platform may still be processing it.
var looks = []time.Duration{0, 250 * time.Millisecond, time.Second, 2 * time.Second}

// Ensure returns the record that Find returns. If Find returns nil, Ensure returns the record
// that it has created before, or creates the record. created reports whether this call created
// it. The platform has no idempotency keys, so Ensure searches for the record after a lost
// response.
//
// It makes at most one create call. If that call may have been applied and the record does not
// appear, no response allows another one. Whatever the status, a gateway may have written the
// response while the platform is still processing the call.
func Ensure[T any](ctx context.Context, c *Client, e Ensuring[T]) (value *T, created bool, err error) {
	e.Call.Blank = append(Blank("metadata.id", e.ID), e.Call.Blank...)
	if _, err := new(outgoing).build(ctx, &c.endpoint, &e.Call); err != nil {
		return nil, false, err // before the search
	}
	e.create = func(ctx context.Context) (*T, error) { return One[T](ctx, c, e.Call) }
	return e.run(ctx, c)
}

func (e *Ensuring[T]) run(ctx context.Context, c *Client) (value *T, created bool, err error) {
	ctx, turn, keys, err := e.begin(ctx, c)
	if err != nil {
		return nil, false, e.unsent(err)
	}
	unlock, err := c.ensuring.lock(ctx, turn)
	if err != nil {
		return nil, false, e.unsent(err)
	}
	defer unlock()
	if value, err = e.Find(ctx); err != nil || value != nil {
		return value, false, err
	}
	if value, err = e.recall(ctx, c, keys); err != nil || value != nil {
		return value, false, err
	}
	return e.make(ctx, c, keys)
}

// begin returns the context of the whole call, which acts for one account. turn names the clinic
// for the lock, so users of one clinic take turns. Unknown clinics share an empty name. keys
// identify the record in the memory.
func (e *Ensuring[T]) begin(ctx context.Context, c *Client) (_ context.Context, turn ensureKey, keys []ensureKey, err error) {
	ctx = c.OneAccount(ctx)
	turn = ensureKey{operation: e.Call.Operation.Name, id: e.ID}
	if c.config.Tokens == nil {
		return ctx, turn, nil, errNoTokens
	}
	token, err := c.config.Tokens.Token(ctx)
	if err == nil {
		err = c.pin(ctx).keep(token.Account)
	}
	for i, holder := range holdersOf(token, c.config.ClinicKey) {
		key := turn
		key.holder = holder
		keys = append(keys, key)
		if i == 0 && (token.Account.ClinicID != "" || !c.config.ClinicKey.IsZero()) {
			turn.holder = holder
		}
	}
	return ctx, turn, keys, err
}

// unsent returns the error of a call without a request.
func (e *Ensuring[T]) unsent(cause error) error {
	op := e.Call.Operation
	return apierror.New(api.Error{Operation: op.Name, Method: op.Method, Route: op.Route, Outcome: api.OutcomeNotSent}, cause, nil, nil)
}

// recall returns the record that an earlier call created, although the lookup does not show
// it. It returns nil if there is none. A record that the platform does not find by its own id
// either was deleted.
func (e *Ensuring[T]) recall(ctx context.Context, c *Client, keys []ensureKey) (*T, error) {
	known, ok := c.ensured.find(keys)
	switch {
	case !ok:
		return nil, nil
	case known.id == "":
		return nil, known.failure
	}
	value, err := e.Get(ctx, known.id)
	switch {
	case errors.Is(err, api.ErrNotFound):
		c.ensured.forget(keys)
		return nil, nil
	case err != nil:
		return nil, err
	}
	if _, id := e.IDs(value); id == e.ID {
		return value, nil
	}
	if known.failure != nil {
		return nil, known.failure
	}
	c.ensured.forget(keys) // the record has got another metadata id since
	return nil, nil
}

// make creates the record, or finds it if another process or an unclear call has created it.
func (e *Ensuring[T]) make(ctx context.Context, c *Client, keys []ensureKey) (value *T, created bool, err error) {
	name := e.Call.Operation.Name
	value, err = e.create(ctx)
	switch {
	case err == nil:
		id, stored := e.IDs(value)
		made := ensuredRecord{id: id}
		if stored != e.ID {
			made.failure = &api.EnsureError{Operation: name, Reason: api.EnsureReasonAltered, IDs: []string{id}}
		}
		c.ensured.add(keys, made)
		if made.failure != nil {
			return nil, false, made.failure
		}
		return value, true, nil
	case errors.Is(err, api.ErrValidation):
		return e.orElse(ctx, err) // another process may have created it first
	case !errors.Is(err, api.ErrMaybeApplied):
		return nil, false, err
	}
	value, lookErr := e.look(ctx)
	if lookErr == nil && value == nil {
		unknown := &api.EnsureError{Operation: name, Reason: api.EnsureReasonUnknown, Err: err}
		c.ensured.add(keys, ensuredRecord{failure: unknown})
		return nil, false, unknown
	}
	return value, value != nil, lookErr
}

// orElse searches for the record once more. If there is none, it returns cause, the reason why
// the record was not created.
func (e *Ensuring[T]) orElse(ctx context.Context, cause error) (*T, bool, error) {
	value, err := e.Find(ctx)
	if err == nil && value == nil {
		err = cause
	}
	return value, false, err
}

// look searches until the record appears or all waits have passed.
func (e *Ensuring[T]) look(ctx context.Context) (*T, error) {
	for _, wait := range looks {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil // the create call's error is more useful than ctx.Err
		}
		if value, err := e.Find(ctx); value != nil || isEnsureError(err) {
			return value, err
		}
	}
	return nil, nil
}

func isEnsureError(err error) bool {
	var e *api.EnsureError
	return errors.As(err, &e)
}
