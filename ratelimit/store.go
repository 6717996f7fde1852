package ratelimit

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Store is where the processes of a [Fleet] leave records for each other. It has to keep
// them for an hour or so, and nothing is lost but speed where it loses them.
type Store interface {
	// Exchange stores the record of a process under the name of a limit, in place of the
	// one before, and returns the records of all processes under that name. Both is one
	// step: of any two exchanges under a name, the later one returns what the earlier one
	// stored, and has a later time. Records that were stored longer than keep ago are deleted.
	Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (Board, error)
}

// Board is what the processes have left in a [Store].
type Board struct {
	// Now is the time of the exchange, by the clock of the store.
	Now time.Time

	// Records are those of all processes, by their ids.
	Records map[string]Record
}

// Record is what one process has left.
type Record struct {
	At   time.Time // when it was stored, by the clock of the store
	Data []byte
}

// MemoryStore is a [Store] in memory, for tests: the fleets that share it are in one process.
type MemoryStore struct {
	mu     sync.Mutex
	boards map[string]map[string]Record
	last   time.Time // of the last exchange
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{boards: map[string]map[string]Record{}} }

// Exchange implements [Store].
func (s *MemoryStore) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (Board, error) {
	if err := ctx.Err(); err != nil {
		return Board{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !now.After(s.last) { // a clock may be coarse, or stand still in a test
		now = s.last.Add(time.Nanosecond)
	}
	s.last = now
	if s.boards[name] == nil {
		s.boards[name] = map[string]Record{}
	}
	board := s.boards[name]
	board[process] = Record{now, record}
	maps.DeleteFunc(board, func(_ string, r Record) bool { return now.Sub(r.At) > keep })
	return Board{Now: now, Records: maps.Clone(board)}, nil
}
