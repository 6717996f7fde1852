package oauthtest

import (
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// FlakyStore is a memory store that can be made to fail, by method.
type FlakyStore struct {
	tokens.Store
	Slow time.Duration // before every method
	mu   sync.Mutex
	fail map[string]error
	hits map[string]int
}

// NewFlakyStore returns an empty store that works.
func NewFlakyStore() *FlakyStore {
	return &FlakyStore{Store: tokens.NewMemoryStore(), fail: map[string]error{}, hits: map[string]int{}}
}

// Break makes a method fail with err, or work again if err is nil.
func (s *FlakyStore) Break(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method] = err
}

// Count returns how often a method was called.
func (s *FlakyStore) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[method]
}

func (s *FlakyStore) check(method string) error {
	time.Sleep(s.Slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[method]++
	return s.fail[method]
}

// Load implements [tokens.Store].
func (s *FlakyStore) Load(ctx context.Context, key tokens.Key) (tokens.Record, error) {
	if err := s.check("Load"); err != nil {
		return tokens.Record{}, err
	}
	return s.Store.Load(ctx, key)
}

// Save implements [tokens.Store].
func (s *FlakyStore) Save(ctx context.Context, key tokens.Key, token oauth.Token) (tokens.Record, error) {
	if err := s.check("Save"); err != nil {
		return tokens.Record{}, err
	}
	return s.Store.Save(ctx, key, token)
}

// Delete implements [tokens.Store].
func (s *FlakyStore) Delete(ctx context.Context, key tokens.Key) error {
	if err := s.check("Delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// DeleteVersion implements [tokens.Store].
func (s *FlakyStore) DeleteVersion(ctx context.Context, key tokens.Key, version int64) error {
	if err := s.check("DeleteVersion"); err != nil {
		return err
	}
	return s.Store.DeleteVersion(ctx, key, version)
}

// List implements [tokens.Lister].
func (s *FlakyStore) List(ctx context.Context, listing tokens.Listing) ([]tokens.Record, error) {
	if err := s.check("List"); err != nil {
		return nil, err
	}
	return s.Store.(tokens.Lister).List(ctx, listing)
}

// ClaimDue implements [tokens.Claimer].
func (s *FlakyStore) ClaimDue(ctx context.Context, due tokens.Due) ([]tokens.Record, error) {
	if err := s.check("ClaimDue"); err != nil {
		return nil, err
	}
	return s.Store.(tokens.Claimer).ClaimDue(ctx, due)
}

// Lease implements [tokens.Store].
func (s *FlakyStore) Lease(ctx context.Context, lease tokens.Lease, ttl time.Duration) (tokens.Record, error) {
	if err := s.check("Lease"); err != nil {
		return tokens.Record{}, err
	}
	return s.Store.Lease(ctx, lease, ttl)
}

// Commit implements [tokens.Store].
func (s *FlakyStore) Commit(ctx context.Context, lease tokens.Lease, token oauth.Token) (tokens.Record, error) {
	if err := s.check("Commit"); err != nil {
		return tokens.Record{}, err
	}
	return s.Store.Commit(ctx, lease, token)
}

// Fail implements [tokens.Store].
func (s *FlakyStore) Fail(ctx context.Context, lease tokens.Lease, reason tokens.Reason) (tokens.Record, error) {
	if err := s.check("Fail"); err != nil {
		return tokens.Record{}, err
	}
	return s.Store.Fail(ctx, lease, reason)
}

// Release implements [tokens.Store].
func (s *FlakyStore) Release(ctx context.Context, lease tokens.Lease) error {
	if err := s.check("Release"); err != nil {
		return err
	}
	return s.Store.Release(ctx, lease)
}
