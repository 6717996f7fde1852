package oauthtest

import (
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// FlakyStore wraps another store. Each of its methods can fail or be intercepted.
type FlakyStore struct {
	tokenstore.Store
	Slow time.Duration // delay before each method

	mu     sync.Mutex
	fail   map[string]error
	around map[string]Interception
	hits   map[string]int
}

// Interception replaces a call of a store. work calls the store itself. key is the record's
// key, or empty if the method concerns no single record.
type Interception func(ctx context.Context, key tokenstore.Key, work func() error) error

// NewFlakyStore returns an empty memory store without failures.
func NewFlakyStore() *FlakyStore { return Around(tokenstore.NewMemoryStore(), nil) }

// Around returns a store that intercepts the given methods.
func Around(store tokenstore.Store, methods map[string]Interception) *FlakyStore {
	return &FlakyStore{Store: store, around: methods, fail: map[string]error{}, hits: map[string]int{}}
}

// Break makes a method fail with err. Nil makes it work again.
func (s *FlakyStore) Break(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method] = err
}

// Count returns the number of calls of a method.
func (s *FlakyStore) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[method]
}

func (s *FlakyStore) do(ctx context.Context, method string, key tokenstore.Key, work func() error) error {
	time.Sleep(s.Slow)
	s.mu.Lock()
	s.hits[method]++
	err, intercept := s.fail[method], s.around[method]
	s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case intercept != nil:
		return intercept(ctx, key, work)
	}
	return work()
}

// returning is do for methods with a result. It drops the result if the call fails.
func returning[T any](ctx context.Context, s *FlakyStore, method string, key tokenstore.Key, work func() (T, error)) (result T, err error) {
	err = s.do(ctx, method, key, func() (err error) { result, err = work(); return err })
	if err != nil {
		result = *new(T)
	}
	return result, err
}

// Load implements [tokenstore.Store].
func (s *FlakyStore) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	return returning(ctx, s, "Load", key, func() (tokenstore.Record, error) { return s.Store.Load(ctx, key) })
}

// Save implements [tokenstore.Store].
func (s *FlakyStore) Save(ctx context.Context, key tokenstore.Key, token oauth.Token) (tokenstore.Record, error) {
	return returning(ctx, s, "Save", key, func() (tokenstore.Record, error) { return s.Store.Save(ctx, key, token) })
}

// SaveVersion implements [tokenstore.Store]. Its method name for interceptions is Save.
func (s *FlakyStore) SaveVersion(ctx context.Context, key tokenstore.Key, version int64, token oauth.Token) (tokenstore.Record, error) {
	return returning(ctx, s, "Save", key, func() (tokenstore.Record, error) { return s.Store.SaveVersion(ctx, key, version, token) })
}

// DeleteVersion implements [tokenstore.Store].
func (s *FlakyStore) DeleteVersion(ctx context.Context, key tokenstore.Key, version int64) error {
	return s.do(ctx, "DeleteVersion", key, func() error { return s.Store.DeleteVersion(ctx, key, version) })
}

// ListClinics implements [tokenstore.Store].
func (s *FlakyStore) ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error) {
	return returning(ctx, s, "ListClinics", tokenstore.Key{}, func() ([]string, error) {
		return s.Store.ListClinics(ctx, environment, after, limit)
	})
}

// List implements [tokenstore.Store].
func (s *FlakyStore) List(ctx context.Context, listing tokenstore.Listing) ([]tokenstore.Record, error) {
	return returning(ctx, s, "List", tokenstore.Key{}, func() ([]tokenstore.Record, error) { return s.Store.List(ctx, listing) })
}

// ClaimDue implements [tokenstore.Store].
func (s *FlakyStore) ClaimDue(ctx context.Context, due tokenstore.Due) ([]tokenstore.Record, error) {
	return returning(ctx, s, "ClaimDue", tokenstore.Key{}, func() ([]tokenstore.Record, error) { return s.Store.ClaimDue(ctx, due) })
}

// ClaimFlow implements [tokenstore.Store].
func (s *FlakyStore) ClaimFlow(ctx context.Context, claim tokenstore.FlowClaim, ttl time.Duration) (string, error) {
	return returning(ctx, s, "ClaimFlow", tokenstore.Key{}, func() (string, error) { return s.Store.ClaimFlow(ctx, claim, ttl) })
}

// EndFlow implements [tokenstore.Store].
func (s *FlakyStore) EndFlow(ctx context.Context, claim tokenstore.FlowClaim, result string) error {
	return s.do(ctx, "EndFlow", tokenstore.Key{}, func() error { return s.Store.EndFlow(ctx, claim, result) })
}

// Postpone implements [tokenstore.Store].
func (s *FlakyStore) Postpone(ctx context.Context, lease tokenstore.Lease, until time.Time) error {
	return s.do(ctx, "Postpone", lease.Key, func() error { return s.Store.Postpone(ctx, lease, until) })
}

// Lease implements [tokenstore.Store].
func (s *FlakyStore) Lease(ctx context.Context, lease tokenstore.Lease, ttl time.Duration) (tokenstore.Record, error) {
	return returning(ctx, s, "Lease", lease.Key, func() (tokenstore.Record, error) { return s.Store.Lease(ctx, lease, ttl) })
}

// Commit implements [tokenstore.Store].
func (s *FlakyStore) Commit(ctx context.Context, lease tokenstore.Lease, token oauth.Token) (tokenstore.Record, error) {
	return returning(ctx, s, "Commit", lease.Key, func() (tokenstore.Record, error) { return s.Store.Commit(ctx, lease, token) })
}

// Fail implements [tokenstore.Store].
func (s *FlakyStore) Fail(ctx context.Context, lease tokenstore.Lease, token oauth.Token, reason tokenstore.Reason) (tokenstore.Record, error) {
	return returning(ctx, s, "Fail", lease.Key, func() (tokenstore.Record, error) { return s.Store.Fail(ctx, lease, token, reason) })
}

// Release implements [tokenstore.Store].
func (s *FlakyStore) Release(ctx context.Context, lease tokenstore.Lease) error {
	return s.do(ctx, "Release", lease.Key, func() error { return s.Store.Release(ctx, lease) })
}

// CheckWrite implements [tokenstore.Store].
func (s *FlakyStore) CheckWrite(ctx context.Context) error {
	return s.do(ctx, "CheckWrite", tokenstore.Key{}, func() error { return s.Store.CheckWrite(ctx) })
}

// First intercepts only the first n calls.
func First(n int, intercept Interception) Interception {
	var mu sync.Mutex
	return func(ctx context.Context, key tokenstore.Key, work func() error) error {
		mu.Lock()
		n--
		left := n
		mu.Unlock()
		if left < 0 {
			return work()
		}
		return intercept(ctx, key, work)
	}
}

// StoreCalls returns one call for each method of store, by name. They concern the record of lease, and
// next is its next token.
func StoreCalls(store tokenstore.Store, lease tokenstore.Lease, next oauth.Token) map[string]func(context.Context) error {
	key, environment := lease.Key, lease.Key.Environment
	return map[string]func(context.Context) error{
		"Load": func(ctx context.Context) error { _, err := store.Load(ctx, key); return err },
		"Save": func(ctx context.Context) error { _, err := store.Save(ctx, key, next); return err },
		"SaveVersion": func(ctx context.Context) error {
			_, err := store.SaveVersion(ctx, key, lease.Version, next)
			return err
		},
		"SaveVersion of a new user": func(ctx context.Context) error {
			_, err := store.SaveVersion(ctx, tokenstore.Key{Environment: environment, User: "new"}, 0, next)
			return err
		},
		"DeleteVersion": func(ctx context.Context) error { return store.DeleteVersion(ctx, key, lease.Version) },
		"Lease":         func(ctx context.Context) error { _, err := store.Lease(ctx, lease, time.Hour); return err },
		"Commit":        func(ctx context.Context) error { _, err := store.Commit(ctx, lease, next); return err },
		"Fail": func(ctx context.Context) error {
			_, err := store.Fail(ctx, lease, next, tokenstore.ReasonInvalidGrant)
			return err
		},
		"Release":    func(ctx context.Context) error { return store.Release(ctx, lease) },
		"CheckWrite": store.CheckWrite,
		"List": func(ctx context.Context) error {
			_, err := store.List(ctx, tokenstore.Listing{Environment: environment, Limit: 1})
			return err
		},
		"ClaimDue": func(ctx context.Context) error {
			_, err := store.ClaimDue(ctx, tokenstore.Due{Environment: environment, Before: time.Now(), Limit: 1, Owner: lease.Owner, TTL: time.Minute})
			return err
		},
	}
}
