package oauth

import (
	"context"
	"slices"
	"strings"
	"time"
)

var (
	_ Lister  = (*MemoryStore)(nil)
	_ Claimer = (*MemoryStore)(nil)
)

// List implements [Lister]. It looks at every record.
func (s *MemoryStore) List(ctx context.Context, listing Listing) ([]Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	var found []Record
	for key, row := range s.rows {
		if key.Environment == listing.Environment && key.User > listing.After &&
			(listing.State == "" || row.record.State == listing.State) {
			record := row.record
			record.Token.AccessToken, record.Token.RefreshToken = "", ""
			found = append(found, record)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b Record) int { return strings.Compare(a.Key.User, b.Key.User) })
	return found[:min(len(found), max(listing.Limit, 0))], nil
}

// ClaimDue implements [Claimer]. It looks at every record.
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
	slices.SortFunc(claimed, func(a, b Record) int { return a.Token.RefreshDue().Compare(b.Token.RefreshDue()) })
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
	at := token.RefreshDue()
	return !at.IsZero() && at.Before(due.Before)
}
