package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
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
	return apikit.NewError(api.Error{Operation: op.Name, Method: op.Method, Route: op.Route, Outcome: api.OutcomeNotSent}, cause, nil, nil)
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

// ensureKey identifies a record to ensure. Two clinics may use the same metadata ids.
type ensureKey struct {
	holder    string // a name of the clinic or of its user, see holdersOf
	operation string
	id        string
}

// holdersOf returns the names of the clinic and of the user with a token, the clinic first. A
// clinic may become known between two calls. The token is the last resort.
func holdersOf(token api.AccessToken, clinicKey api.Secret) (names []string) {
	if id := token.Account.ClinicID; id != "" {
		names = append(names, "clinic "+id)
	}
	if !clinicKey.IsZero() {
		names = append(names, "key "+clinicKey.Reveal())
	}
	if token.Account.OwnerID != "" {
		names = append(names, "owner "+token.Account.OwnerType+" "+token.Account.OwnerID)
	}
	if len(names) == 0 {
		names = append(names, "token "+token.Secret.Reveal())
	}
	return names
}

// keyedLock admits one caller for each key. Views of a client share it.
type keyedLock struct {
	mu   sync.Mutex
	held map[ensureKey]*lockEntry
}

// lockEntry is the state of a key while it is locked or has waiting callers.
type lockEntry struct {
	slot chan struct{} // contains a value while the key is held
	refs int
}

// lock waits for the key and returns a function to release it.
func (l *keyedLock) lock(ctx context.Context, key ensureKey) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[ensureKey]*lockEntry{}
	}
	entry := l.held[key]
	if entry == nil {
		entry = &lockEntry{slot: make(chan struct{}, 1)}
		l.held[key] = entry
	}
	entry.refs++
	l.mu.Unlock()
	select {
	case entry.slot <- struct{}{}:
		return func() { <-entry.slot; l.leave(key, entry) }, nil
	case <-ctx.Done():
		l.leave(key, entry)
		return nil, ctx.Err()
	}
}

// leave deletes a key without a holder or waiting callers.
func (l *keyedLock) leave(key ensureKey, entry *lockEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry.refs--; entry.refs == 0 {
		delete(l.held, key)
	}
}

const (
	// ensuredFor is the time for which a created record is remembered. A lookup shows it much
	// earlier, unless the platform has altered its metadata id.
	ensuredFor = 24 * time.Hour

	// maxEnsured is the largest number of remembered names of records, about 2 MB.
	maxEnsured = 10_000

	// unknownFor is the time for which a create call with an unknown outcome permits no other
	// one, if the lookup does not show its record.
	unknownFor = 2 * time.Minute
)

// ensuredRecord is the record of a create call.
type ensuredRecord struct {
	id      string           // empty if the outcome of the call is unknown
	failure *api.EnsureError // nil if the platform stored the record as requested
	at      time.Time
}

// ensuredRecords remembers the records that Ensure has created, because a lookup may not show
// a new record yet and never shows an altered one. Views of a client share it.
type ensuredRecords struct {
	mu      sync.Mutex
	records map[ensureKey]ensuredRecord
	order   []ensuredAt // oldest first, with entries of records that were replaced
}

type ensuredAt struct {
	key ensureKey
	at  time.Time
}

// find returns the record created for one of the keys.
func (e *ensuredRecords) find(keys []ensureKey) (ensuredRecord, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		record, ok := e.records[key]
		limit := ensuredFor
		if record.id == "" {
			limit = unknownFor
		}
		if ok && time.Since(record.at) < limit {
			return record, true
		}
	}
	return ensuredRecord{}, false
}

// add remembers a record under all keys, and forgets the oldest ones.
func (e *ensuredRecords) add(keys []ensureKey, record ensuredRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.records == nil {
		e.records = map[ensureKey]ensuredRecord{}
	}
	record.at = time.Now()
	for _, key := range keys {
		e.records[key] = record
		e.order = append(e.order, ensuredAt{key, record.at})
	}
	for len(e.order) > maxEnsured || time.Since(e.order[0].at) >= ensuredFor {
		if oldest := e.order[0]; e.records[oldest.key].at.Equal(oldest.at) {
			delete(e.records, oldest.key)
		}
		e.order = e.order[1:]
	}
}

// forget removes the record of the keys.
func (e *ensuredRecords) forget(keys []ensureKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		delete(e.records, key)
	}
}
