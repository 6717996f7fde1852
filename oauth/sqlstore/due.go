package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/tokenjson"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// List implements [tokenstore.Store]. It reads no secrets of encrypted tokens.
func (s *store) List(ctx context.Context, listing tokenstore.Listing) ([]tokenstore.Record, error) {
	query := s.sql.list[listed{listing.State != "", listing.ClinicID != ""}]
	v := values{
		"environment": listing.Environment.String(), "after": listing.After, "clinic": listing.ClinicID,
		"state": string(listing.State), "limit": max(listing.Limit, 0),
	}
	var records []tokenstore.Record
	err := s.retry(ctx, "list", query, func(conn *sql.Conn) error {
		records = nil
		return s.each(ctx, conn, query, v, func(row scanner) error {
			record := tokenstore.Record{Key: tokenstore.Key{Environment: listing.Environment}}
			var encoded []byte
			if err := row.Scan(&record.Key.User, &record.Version, &record.State, &record.Reason, &encoded); err != nil {
				return err
			}
			_ = fill(&record, encoded) // an unreadable record is listed without its token's fields
			record.Token.Replaced = nil
			records = append(records, record)
			return nil
		})
	})
	return records, err
}

// ListClinics implements [tokenstore.Store].
func (s *store) ListClinics(ctx context.Context, environment api.Environment, after string, limit int) ([]string, error) {
	v := values{"environment": environment.String(), "after": after, "limit": max(limit, 0)}
	var ids []string
	err := s.retry(ctx, "list clinics", s.sql.clinics, func(conn *sql.Conn) error {
		ids = nil
		return s.each(ctx, conn, s.sql.clinics, v, func(row scanner) error {
			var id string
			err := row.Scan(&id)
			ids = append(ids, id)
			return err
		})
	})
	return ids, err
}

// ClaimDue implements [tokenstore.Store]. It skips rows with a lock of another statement
// instead of waiting for them.
func (s *store) ClaimDue(ctx context.Context, due tokenstore.Due) ([]tokenstore.Record, error) {
	if !isOwner(due.Owner) {
		return nil, &api.ArgumentError{Field: "tokenstore.Due.Owner", Reason: "must be 1 to 255 bytes of UTF-8 without zero bytes"}
	}
	v := values{
		"environment": due.Environment.String(), "from": since(due.From), "before": due.Before.UnixMicro(),
		"used": since(due.UsedSince), "limit": max(due.Limit, 0), "owner": due.Owner, "ttl": due.TTL.Microseconds(),
	}
	var claims []claimed
	query := s.sql.claim
	err := s.retry(ctx, "claim", query, func(conn *sql.Conn) (err error) {
		if s.dialect == mySQL {
			claims, err = s.claimInTurn(ctx, conn, due.Environment, v)
			return err
		}
		claims, err = s.claims(ctx, conn, query, due.Environment, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(claims, func(a, b claimed) int { return int(min(max(a.due-b.due, -1), 1)) })
	return s.readable(ctx, claims, due)
}

// readable returns the readable claims and postpones the others.
func (s *store) readable(ctx context.Context, claims []claimed, due tokenstore.Due) ([]tokenstore.Record, error) {
	var unreadable, failure error
	records := make([]tokenstore.Record, 0, len(claims))
	for _, c := range claims {
		if !c.unreadable {
			records = append(records, c.record)
			continue
		}
		unreadable = fmt.Errorf("%w: %s", errDetails, c.record.Key)
		if !due.Retry.IsZero() {
			lease := tokenstore.Lease{Key: c.record.Key, Version: c.record.Version, Owner: due.Owner}
			failure = cmp.Or(failure, s.Postpone(ctx, lease, due.Retry))
		}
	}
	if len(records) > 0 {
		return records, nil
	}
	return nil, cmp.Or(failure, unreadable)
}

// Postpone implements [tokenstore.Store].
func (s *store) Postpone(ctx context.Context, lease tokenstore.Lease, until time.Time) error {
	if !isOwner(lease.Owner) {
		return ctx.Err()
	}
	v := leaseValues(lease)
	v["due"] = until.UnixMicro()
	_, err := s.change(ctx, "postpone", lease.Key, s.sql.postpone, v)
	return err
}

// since returns the lower bound for a column of times in microseconds. A zero t is no bound.
func since(t time.Time) int64 {
	if at := tokenjson.Micros(t); at != nil {
		return *at
	}
	return math.MinInt64
}

// claimed is a claimed record and its due time in microseconds.
type claimed struct {
	record     tokenstore.Record
	due        int64
	unreadable bool
}

func (s *store) claims(ctx context.Context, q rowser, query statement, environment api.Environment, v values) ([]claimed, error) {
	var claims []claimed
	err := s.each(ctx, q, query, v, func(row scanner) (err error) {
		var c claimed
		c.record, err = scan(row, environment, &c.due)
		if errors.Is(err, tokenstore.ErrUnreadable) {
			c.unreadable, err = true, nil
		}
		claims = append(claims, c)
		return err
	})
	return claims, err
}

// claimInTurn implements a claim for databases without UPDATE … RETURNING. It locks the rows
// while it reads them and until it has written their leases.
func (s *store) claimInTurn(ctx context.Context, conn *sql.Conn, environment api.Environment, v values) (claims []claimed, err error) {
	// At its default isolation level MySQL would also lock the gaps between the rows.
	err = transact(ctx, conn, sql.LevelReadCommitted, func(tx *sql.Tx) (err error) {
		claims, err = s.claims(ctx, tx, s.sql.claimPick, environment, v)
		if err != nil || len(claims) == 0 {
			return err
		}
		args := s.sql.claimTake.args(v)
		for _, c := range claims {
			args = append(args, c.record.Key.User)
		}
		users := `(?` + strings.Repeat(`, ?`, len(claims)-1) + `)`
		_, err = tx.ExecContext(ctx, s.sql.claimTake.text+users, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claims, nil
}
