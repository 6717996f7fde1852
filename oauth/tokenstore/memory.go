package tokenstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
)

// MemoryStore is a [Store] in memory, for tests, tools and single-process programs. If the
// process ends, every user has to authorize again.
type MemoryStore struct {
	mu    sync.Mutex
	rows  map[Key]*memoryRow
	flows map[flowKey]memoryFlow

	// last is the highest version of any record. It only grows, so no version is reused.
	last int64
}

type memoryRow struct {
	record Record
	owner  string
	until  time.Time

	postponed time.Time // the record is not due before this time
}

// dueAt returns the time at which the record becomes due. Zero means never.
func (r *memoryRow) dueAt() time.Time {
	at := DueAt(r.record.Token)
	if !at.IsZero() && r.postponed.After(at) {
		return r.postponed
	}
	return at
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{rows: map[Key]*memoryRow{}, flows: map[flowKey]memoryFlow{}}
}

// Load implements [Store].
func (s *MemoryStore) Load(ctx context.Context, key Key) (Record, error) {
	return s.with(ctx, key, func(row *memoryRow) error { return nil })
}

// Save implements [Store].
func (s *MemoryStore) Save(ctx context.Context, key Key, token oauth.Token) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	if err := key.ValidateToken(token); err != nil {
		return Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row := &memoryRow{record: Record{Key: key}}
	s.rows[key] = row
	s.write(row, token, StateActive, "")
	return row.record, nil
}

// SaveVersion implements [Store].
func (s *MemoryStore) SaveVersion(ctx context.Context, key Key, version int64, token oauth.Token) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	if err := key.ValidateToken(token); err != nil {
		return Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[key]
	switch {
	case ok && row.record.Version != version, !ok && version != 0:
		return Record{}, ErrConflict
	case !ok:
		row = &memoryRow{record: Record{Key: key}}
		s.rows[key] = row
	}
	s.write(row, token, StateActive, "")
	return row.record, nil
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
func (s *MemoryStore) Commit(ctx context.Context, lease Lease, token oauth.Token) (Record, error) {
	return s.finish(ctx, lease, token, StateActive, "")
}

// Fail implements [Store].
func (s *MemoryStore) Fail(ctx context.Context, lease Lease, token oauth.Token, reason Reason) (Record, error) {
	return s.finish(ctx, lease, token, StateReauthorize, reason)
}

// finish writes a leased record.
func (s *MemoryStore) finish(ctx context.Context, lease Lease, token oauth.Token, state State, reason Reason) (Record, error) {
	if err := lease.Key.ValidateToken(token); err != nil {
		return Record{}, err
	}
	return s.with(ctx, lease.Key, func(row *memoryRow) error {
		if !row.leasedBy(lease) {
			return ErrConflict
		}
		s.write(row, token, state, reason)
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

// CheckWrite implements [Store]. It fails only if ctx has ended.
func (s *MemoryStore) CheckWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock() // every write needs the lock
	defer s.mu.Unlock()
	return nil
}

// List implements [Store]. It reads every record.
func (s *MemoryStore) List(ctx context.Context, listing Listing) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	var found []Record
	for key, row := range s.rows {
		if key.Environment == listing.Environment && key.User > listing.After &&
			(listing.State == "" || row.record.State == listing.State) &&
			(listing.ClinicID == "" || row.record.Token.Clinic.ID == listing.ClinicID) {
			record := row.record
			record.Token.AccessToken, record.Token.RefreshToken, record.Token.Replaced = api.Secret{}, api.Secret{}, nil
			found = append(found, record)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b Record) int { return strings.Compare(a.Key.User, b.Key.User) })
	return found[:min(len(found), max(listing.Limit, 0))], nil
}

// ListClinics implements [Store]. It reads every record.
func (s *MemoryStore) ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	var found []string
	for key, row := range s.rows {
		if id := row.record.Token.Clinic.ID; key.Environment == environment && id > after {
			found = append(found, id)
		}
	}
	s.mu.Unlock()
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), max(limit, 0))], nil
}

// ClaimDue implements [Store]. It reads every record.
func (s *MemoryStore) ClaimDue(ctx context.Context, due Due) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var claimed []Record
	for _, row := range s.rows {
		if row.due(due, now) {
			claimed = append(claimed, row.record)
		}
	}
	slices.SortFunc(claimed, func(a, b Record) int { return s.rows[a.Key].dueAt().Compare(s.rows[b.Key].dueAt()) })
	claimed = claimed[:min(len(claimed), max(due.Limit, 0))]
	for _, record := range claimed {
		row := s.rows[record.Key]
		row.owner, row.until = due.Owner, now.Add(due.TTL)
	}
	return claimed, nil
}

func (r *memoryRow) due(due Due, now time.Time) bool {
	token := &r.record.Token
	if r.record.Key.Environment != due.Environment || r.record.State != StateActive ||
		(r.owner != "" && now.Before(r.until)) || token.UsedAt.Before(due.UsedSince) {
		return false
	}
	at := r.dueAt()
	return !at.IsZero() && !at.Before(due.From) && at.Before(due.Before)
}

// Postpone implements [Store].
func (s *MemoryStore) Postpone(ctx context.Context, lease Lease, until time.Time) error {
	_, err := s.with(ctx, lease.Key, func(row *memoryRow) error {
		if row.leasedBy(lease) {
			row.owner, row.postponed = "", until
		}
		return nil
	})
	if errors.Is(err, ErrNoRecord) {
		return nil
	}
	return err
}

// memoryFlow is a flow of a [MemoryStore].
type memoryFlow struct {
	owner, result string
	until         time.Time // end of the claim
}

// flowKey identifies a flow.
type flowKey struct {
	environment api.Environment
	flow        string
}

// ClaimFlow implements [Store].
func (s *MemoryStore) ClaimFlow(ctx context.Context, claim FlowClaim, ttl time.Duration) (string, error) {
	if err := errors.Join(ctx.Err(), claim.Validate()); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for key, flow := range s.flows {
		if now.Sub(flow.until) > defaults.FlowRetention {
			delete(s.flows, key)
		}
	}
	key := flowKey{claim.Environment, claim.Flow}
	flow, found := s.flows[key]
	switch {
	case !found:
		s.flows[key] = memoryFlow{owner: claim.Owner, until: now.Add(ttl)}
		return "", nil
	case flow.result != "":
		return flow.result, nil
	case flow.owner == claim.Owner:
		return "", nil
	case now.Before(flow.until):
		return "", ErrLeased
	}
	return "", ErrNoResult
}

// EndFlow implements [Store].
func (s *MemoryStore) EndFlow(ctx context.Context, claim FlowClaim, result string) error {
	if err := errors.Join(ctx.Err(), claim.Validate()); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := flowKey{claim.Environment, claim.Flow}
	flow, found := s.flows[key]
	switch {
	case !found || flow.owner != claim.Owner || flow.result != "":
	case result == "":
		delete(s.flows, key)
	default:
		flow.result = result
		s.flows[key] = flow
	}
	return nil
}

// String returns the name of the type, without any content.
func (s *MemoryStore) String() string { return "tokenstore.MemoryStore" }

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

func (s *MemoryStore) write(row *memoryRow, token oauth.Token, state State, reason Reason) {
	s.last++
	row.owner, row.postponed = "", time.Time{}
	row.record.Token, row.record.State, row.record.Reason = token, state, reason
	row.record.Version, row.record.UpdatedAt = s.last, time.Now().Round(0)
}

// leasedBy reports whether lease is the latest lease on the record's current version. It
// ignores the expiry: a late owner may still write if no other owner has taken a lease.
func (r *memoryRow) leasedBy(lease Lease) bool {
	return r.record.Version == lease.Version && r.owner != "" && r.owner == lease.Owner
}
