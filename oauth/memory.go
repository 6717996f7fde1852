package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// MemoryStore is a [Store] in memory, for tests, tools and single-process
// programs that may forget their users: when the process ends, every user has
// to authorize again.
type MemoryStore struct {
	mu   sync.Mutex
	rows map[Key]*memoryRow

	// last is the last version given to any record: versions are never reused.
	last int64
}

type memoryRow struct {
	record Record
	owner  string
	until  time.Time
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{rows: map[Key]*memoryRow{}}
}

// Load implements [Store].
func (s *MemoryStore) Load(ctx context.Context, key Key) (Record, error) {
	return s.with(ctx, key, func(row *memoryRow) error { return nil })
}

// Save implements [Store].
func (s *MemoryStore) Save(ctx context.Context, key Key, token Token) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	if err := token.ValidFor(key); err != nil {
		return Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := &memoryRow{record: Record{Key: key}}
	s.rows[key] = row
	s.write(row, token, StateActive, "")
	return row.record, nil
}

// Delete implements [Store].
func (s *MemoryStore) Delete(ctx context.Context, key Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, key)
	return nil
}

// DeleteVersion implements [Store].
func (s *MemoryStore) DeleteVersion(ctx context.Context, key Key, version int64) error {
	_, err := s.with(ctx, key, func(row *memoryRow) error {
		if row.record.Version != version {
			return ErrConflict
		}
		delete(s.rows, key)
		return nil
	})
	if errors.Is(err, ErrNoRecord) {
		return nil
	}
	return err
}

// Lease implements [Store].
func (s *MemoryStore) Lease(ctx context.Context, lease Lease, ttl time.Duration) (Record, error) {
	return s.with(ctx, lease.Key, func(row *memoryRow) error {
		now := time.Now()
		switch {
		case row.record.Version != lease.Version:
			return ErrConflict
		case row.owner != "" && row.owner != lease.Owner && now.Before(row.until):
			return ErrLeased
		}
		row.owner, row.until = lease.Owner, now.Add(ttl)
		return nil
	})
}

// Commit implements [Store].
func (s *MemoryStore) Commit(ctx context.Context, lease Lease, token Token) (Record, error) {
	if err := token.ValidFor(lease.Key); err != nil {
		return Record{}, err
	}
	return s.with(ctx, lease.Key, func(row *memoryRow) error {
		if !row.leasedBy(lease) {
			return ErrConflict
		}
		s.write(row, token, StateActive, "")
		return nil
	})
}

// Fail implements [Store].
func (s *MemoryStore) Fail(ctx context.Context, lease Lease, reason Reason) (Record, error) {
	return s.with(ctx, lease.Key, func(row *memoryRow) error {
		if !row.leasedBy(lease) {
			return ErrConflict
		}
		s.write(row, row.record.Token, StateReauthorize, reason)
		return nil
	})
}

// Release implements [Store].
func (s *MemoryStore) Release(ctx context.Context, lease Lease) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if row, ok := s.rows[lease.Key]; ok && row.leasedBy(lease) {
		row.owner = ""
	}
	return nil
}

// String says what the store is and nothing of what it holds.
func (s *MemoryStore) String() string { return "oauth.MemoryStore" }

// Format prints [MemoryStore.String] for every verb.
func (s *MemoryStore) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// with runs change on the row of key and returns its record.
func (s *MemoryStore) with(ctx context.Context, key Key, change func(*memoryRow) error) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[key]
	if !ok {
		return Record{}, ErrNoRecord
	}
	if err := change(row); err != nil {
		return Record{}, err
	}
	return row.record, nil
}

func (s *MemoryStore) write(row *memoryRow, token Token, state State, reason Reason) {
	s.last++
	row.owner = ""
	row.record.Token, row.record.State, row.record.Reason = token, state, reason
	row.record.Version, row.record.UpdatedAt = s.last, time.Now()
}

// leasedBy does not look at the lease's end: an owner that is late may still
// write as long as nobody else has come.
func (r *memoryRow) leasedBy(lease Lease) bool {
	return r.record.Version == lease.Version && r.owner != "" && r.owner == lease.Owner
}
