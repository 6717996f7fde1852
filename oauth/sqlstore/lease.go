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
	record, err := s.cas(ctx, "lease", lease, s.sql.lease, v)
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
	v, err := s.accept(ctx, lease.Key, token)
	if err != nil {
		return tokenstore.Record{}, err
	}
	version, err := int64(0), error(sql.ErrNoRows)
	if isOwner(lease.Owner) {
		v["version"], v["owner"] = lease.Version, lease.Owner
		version, err = s.write(ctx, "commit", s.sql.commit, v)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return tokenstore.Record{}, s.conflict(ctx, "commit", lease.Key)
	}
	if err != nil {
		return tokenstore.Record{}, err
	}
	return wrote(lease.Key, token, version), nil
}

// Fail implements [tokenstore.Store].
func (s *store) Fail(ctx context.Context, lease tokenstore.Lease, reason tokenstore.Reason) (tokenstore.Record, error) {
	v := leaseValues(lease)
	v["reason"] = string(reason)
	record, err := s.cas(ctx, "fail", lease, s.sql.fail, v)
	if errors.Is(err, errNotMatched) {
		return tokenstore.Record{}, s.conflict(ctx, "fail", lease.Key)
	}
	return record, err
}

// Release implements [tokenstore.Store].
func (s *store) Release(ctx context.Context, lease tokenstore.Lease) error {
	if !isOwner(lease.Owner) {
		return ctx.Err()
	}
	_, err := s.change(ctx, "release", lease.Key, s.sql.release, leaseValues(lease))
	return err
}

// errNotMatched: no row meets the conditions of a compare-and-set.
var errNotMatched = errors.New("sqlstore: no row matched")

// cas runs a compare-and-set and returns the resulting record.
func (s *store) cas(ctx context.Context, op string, lease tokenstore.Lease, query statement, v values) (tokenstore.Record, error) {
	switch {
	case ctx.Err() != nil:
		return tokenstore.Record{}, ctx.Err()
	case !isOwner(lease.Owner): // rows without a lease have an empty owner
		return tokenstore.Record{}, errNotMatched
	case s.dialect == mySQL:
		return s.casThere(ctx, op, lease, query, v)
	}
	record, err := s.row(ctx, op, lease.Key, query, v)
	if errors.Is(err, tokenstore.ErrNoRecord) {
		return tokenstore.Record{}, errNotMatched
	}
	return record, err
}

// casThere is cas for databases without UPDATE … RETURNING. It reads the row first: the token
// cannot change as long as the version stays the same.
func (s *store) casThere(ctx context.Context, op string, lease tokenstore.Lease, query statement, v values) (tokenstore.Record, error) {
	record, err := s.Load(ctx, lease.Key)
	if err != nil {
		return tokenstore.Record{}, err
	}
	if record.Version != lease.Version {
		return tokenstore.Record{}, errNotMatched
	}
	version, err := s.write(ctx, op, query, v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tokenstore.Record{}, errNotMatched
	case err != nil:
		return tokenstore.Record{}, err
	case op == "fail":
		record.Version, record.UpdatedAt = version, time.UnixMicro(version).UTC()
		record.State, record.Reason = tokenstore.StateReauthorize, tokenstore.Reason(v["reason"].(string))
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
