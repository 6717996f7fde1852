package oauth_test

import (
	"context"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/oauth"
)

// brittleStore is a memory store that can be made to fail, by method.
type brittleStore struct {
	oauth.Store
	slow time.Duration // before every method
	mu   sync.Mutex
	fail map[string]error
	hits map[string]int
}

func newBrittleStore() *brittleStore {
	return &brittleStore{Store: oauth.NewMemoryStore(), fail: map[string]error{}, hits: map[string]int{}}
}

func (s *brittleStore) breaks(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method] = err
}

func (s *brittleStore) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[method]
}

func (s *brittleStore) check(method string) error {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits[method]++
	return s.fail[method]
}

func (s *brittleStore) Load(ctx context.Context, key oauth.Key) (oauth.Record, error) {
	if err := s.check("Load"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Load(ctx, key)
}

func (s *brittleStore) Save(ctx context.Context, key oauth.Key, token oauth.Token) (oauth.Record, error) {
	if err := s.check("Save"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Save(ctx, key, token)
}

func (s *brittleStore) Delete(ctx context.Context, key oauth.Key) error {
	if err := s.check("Delete"); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

func (s *brittleStore) DeleteVersion(ctx context.Context, key oauth.Key, version int64) error {
	if err := s.check("DeleteVersion"); err != nil {
		return err
	}
	return s.Store.DeleteVersion(ctx, key, version)
}

func (s *brittleStore) List(ctx context.Context, listing oauth.Listing) ([]oauth.Record, error) {
	if err := s.check("List"); err != nil {
		return nil, err
	}
	return s.Store.(oauth.Lister).List(ctx, listing)
}

func (s *brittleStore) ClaimDue(ctx context.Context, due oauth.Due) ([]oauth.Record, error) {
	if err := s.check("ClaimDue"); err != nil {
		return nil, err
	}
	return s.Store.(oauth.Claimer).ClaimDue(ctx, due)
}

func (s *brittleStore) Lease(ctx context.Context, lease oauth.Lease, ttl time.Duration) (oauth.Record, error) {
	if err := s.check("Lease"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Lease(ctx, lease, ttl)
}

func (s *brittleStore) Commit(ctx context.Context, lease oauth.Lease, token oauth.Token) (oauth.Record, error) {
	if err := s.check("Commit"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Commit(ctx, lease, token)
}

func (s *brittleStore) Fail(ctx context.Context, lease oauth.Lease, reason oauth.Reason) (oauth.Record, error) {
	if err := s.check("Fail"); err != nil {
		return oauth.Record{}, err
	}
	return s.Store.Fail(ctx, lease, reason)
}

func (s *brittleStore) Release(ctx context.Context, lease oauth.Lease) error {
	if err := s.check("Release"); err != nil {
		return err
	}
	return s.Store.Release(ctx, lease)
}
