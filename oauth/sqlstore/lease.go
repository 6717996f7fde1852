package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// maxOwnerBytes is the size of the column.
const maxOwnerBytes = 255

// Lease implements [tokenstore.Store]. The owner is 1 to 255 bytes of UTF-8 without zero
// bytes.
func (s *store) Lease(ctx context.Context, lease tokenstore.Lease, ttl time.Duration) (tokenstore.Record, error) {
	if !isOwner(lease.Owner) {
		return tokenstore.Record{}, &api.ArgumentError{Field: "tokenstore.Lease.Owner", Reason: "must be 1 to 255 bytes of UTF-8 without zero bytes"}
	}
	v := leaseValues(lease)
	v["ttl"] = ttl.Microseconds()
	record, err := s.take(ctx, lease, v)
	if !errors.Is(err, errNotMatched) {
		return record, err
	}
	return s.leaseError(ctx, lease)
}

// leaseError returns the reason for a failed lease. If the row changes between the two
// statements, the reason is the later one and still correct.
func (s *store) leaseError(ctx context.Context, lease tokenstore.Lease) (tokenstore.Record, error) {
	version, err := s.probe(ctx, "lease", lease.Key)
	switch {
	case err != nil:
		return tokenstore.Record{}, err
	case version != lease.Version:
		return tokenstore.Record{}, tokenstore.ErrConflict
	}
	return tokenstore.Record{}, tokenstore.ErrLeased
}

// Commit implements [tokenstore.Store].
func (s *store) Commit(ctx context.Context, lease tokenstore.Lease, token oauth.Token) (tokenstore.Record, error) {
	return s.finish(ctx, "commit", s.sql.commit, lease, token, "")
}

// Fail implements [tokenstore.Store].
func (s *store) Fail(ctx context.Context, lease tokenstore.Lease, token oauth.Token, reason tokenstore.Reason) (tokenstore.Record, error) {
	record, err := s.finish(ctx, "fail", s.sql.fail, lease, token, reason)
	if err == nil {
		record.State, record.Reason = tokenstore.StateReauthorize, reason
	}
	return record, err
}

// finish writes a token if its owner still has the lease.
func (s *store) finish(ctx context.Context, op string, query statement, lease tokenstore.Lease, token oauth.Token, reason tokenstore.Reason) (tokenstore.Record, error) {
	v, err := s.accept(ctx, lease.Key, token)
	if err != nil {
		return tokenstore.Record{}, err
	}
	version, err := int64(0), error(sql.ErrNoRows)
	if isOwner(lease.Owner) {
		v["version"], v["owner"], v["reason"] = lease.Version, lease.Owner, string(reason)
		version, err = s.write(ctx, op, query, v)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return tokenstore.Record{}, s.conflict(ctx, op, lease.Key)
	}
	if err != nil {
		return tokenstore.Record{}, err
	}
	return wrote(lease.Key, token, version), nil
}

// Release implements [tokenstore.Store].
func (s *store) Release(ctx context.Context, lease tokenstore.Lease) error {
	if !isOwner(lease.Owner) {
		return ctx.Err()
	}
	_, err := s.change(ctx, "release", lease.Key, s.sql.release, leaseValues(lease))
	return err
}

// errNotMatched: no row meets the conditions of a lease.
var errNotMatched = errors.New("sqlstore: no row matched")

// take takes a lease and returns the record.
func (s *store) take(ctx context.Context, lease tokenstore.Lease, v values) (tokenstore.Record, error) {
	if s.dialect == mySQL {
		return s.takeThere(ctx, lease, v)
	}
	record, err := s.row(ctx, "lease", lease.Key, s.sql.lease, v)
	if errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, errNotMatched
	}
	return record, err
}

// takeThere is take for databases without UPDATE … RETURNING. It reads the row first: the
// token cannot change as long as the version stays the same.
func (s *store) takeThere(ctx context.Context, lease tokenstore.Lease, v values) (tokenstore.Record, error) {
	record, err := s.Load(ctx, lease.Key)
	if err != nil {
		return tokenstore.Record{}, err
	}
	if record.Version != lease.Version {
		return tokenstore.Record{}, errNotMatched
	}
	_, err = s.write(ctx, "lease", s.sql.lease, v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tokenstore.Record{}, errNotMatched
	case err != nil:
		return tokenstore.Record{}, err
	}
	return record, nil
}

// leaseValues returns the columns of a lease.
func leaseValues(lease tokenstore.Lease) values {
	v := keyValues(lease.Key)
	v["version"], v["owner"] = lease.Version, lease.Owner
	return v
}

func isOwner(owner string) bool {
	return owner != "" && len(owner) <= maxOwnerBytes && utf8.ValidString(owner) && !strings.Contains(owner, "\x00")
}
