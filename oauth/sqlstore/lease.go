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
)

// maxOwnerBytes is the length of the column.
const maxOwnerBytes = 255

// Lease implements [oauth.Store]. The owner is 1 to 255 bytes of
// UTF-8 without zero bytes.
func (s *Store) Lease(ctx context.Context, lease oauth.Lease, ttl time.Duration) (oauth.Record, error) {
	if !isOwner(lease.Owner) {
		return oauth.Record{}, &api.ArgumentError{Field: "oauth.Lease.Owner", Reason: "must be 1 to 255 bytes of UTF-8 without zero bytes"}
	}
	v := held(lease)
	v["ttl"] = ttl.Microseconds()
	record, err := s.cas(ctx, "lease", lease, s.sql.lease, v)
	if !errors.Is(err, errNotMatched) {
		return record, err
	}
	return s.lost(ctx, lease)
}

// lost finds out why a lease was not to be had. What happens between the two
// statements makes the reason a newer one, never a wrong one.
func (s *Store) lost(ctx context.Context, lease oauth.Lease) (oauth.Record, error) {
	version, err := s.probe(ctx, "lease", lease.Key)
	switch {
	case err != nil:
		return oauth.Record{}, err
	case version != lease.Version:
		return oauth.Record{}, oauth.ErrConflict
	}
	return oauth.Record{}, oauth.ErrLeased
}

// Commit implements [oauth.Store].
func (s *Store) Commit(ctx context.Context, lease oauth.Lease, token oauth.Token) (oauth.Record, error) {
	v, err := s.accept(ctx, lease.Key, token)
	if err != nil {
		return oauth.Record{}, err
	}
	version, err := int64(0), error(sql.ErrNoRows)
	if isOwner(lease.Owner) {
		v["version"], v["owner"] = lease.Version, lease.Owner
		version, err = s.write(ctx, "commit", s.sql.commit, v)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return oauth.Record{}, s.conflict(ctx, "commit", lease.Key)
	}
	if err != nil {
		return oauth.Record{}, err
	}
	return wrote(lease.Key, token, version), nil
}

// Fail implements [oauth.Store].
func (s *Store) Fail(ctx context.Context, lease oauth.Lease, reason oauth.Reason) (oauth.Record, error) {
	v := held(lease)
	v["reason"] = string(reason)
	record, err := s.cas(ctx, "fail", lease, s.sql.fail, v)
	if errors.Is(err, errNotMatched) {
		return oauth.Record{}, s.conflict(ctx, "fail", lease.Key)
	}
	return record, err
}

// Release implements [oauth.Store].
func (s *Store) Release(ctx context.Context, lease oauth.Lease) error {
	if !isOwner(lease.Owner) {
		return ctx.Err()
	}
	_, err := s.change(ctx, "release", lease.Key, s.sql.release, held(lease))
	return err
}

// Reseal implements [oauth.Resealer].
func (s *Store) Reseal(ctx context.Context, key oauth.Key, version int64, access, refresh api.Secret) error {
	if !s.options.InsecurePlaintext && !oauth.IsSealed(oauth.Token{AccessToken: access, RefreshToken: refresh}) {
		return ErrPlaintext
	}
	v := place(key)
	v["version"], v["access"], v["refresh"] = version, []byte(access.Reveal()), []byte(refresh.Reveal())
	changed, err := s.change(ctx, "reseal", key, s.sql.reseal, v)
	if err != nil || changed > 0 {
		return err
	}
	current, err := s.probe(ctx, "reseal", key)
	if err == nil && current != version {
		return oauth.ErrConflict
	}
	return err // none where the row held just that before
}

// errNotMatched: no row is as a compare-and-set wants it.
var errNotMatched = errors.New("sqlstore: no row matched")

// cas runs a compare-and-set and returns the record that it made.
func (s *Store) cas(ctx context.Context, op string, lease oauth.Lease, query statement, v values) (oauth.Record, error) {
	switch {
	case ctx.Err() != nil:
		return oauth.Record{}, ctx.Err()
	case !isOwner(lease.Owner): // nobody's name stands in the rows without a lease
		return oauth.Record{}, errNotMatched
	case s.dialect == MySQL:
		return s.casThere(ctx, op, lease, query, v)
	}
	record, err := s.row(ctx, op, lease.Key, query, v)
	if errors.Is(err, oauth.ErrNoRecord) {
		return oauth.Record{}, errNotMatched
	}
	return record, err
}

// casThere is cas where an UPDATE returns no row. The row is read before: the
// token in it cannot change as long as the version does not.
func (s *Store) casThere(ctx context.Context, op string, lease oauth.Lease, query statement, v values) (oauth.Record, error) {
	record, err := s.Load(ctx, lease.Key)
	if err != nil {
		return oauth.Record{}, err
	}
	if record.Version != lease.Version {
		return oauth.Record{}, errNotMatched
	}
	version, err := s.write(ctx, op, query, v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return oauth.Record{}, errNotMatched
	case err != nil:
		return oauth.Record{}, err
	case op == "fail":
		record.Version, record.UpdatedAt = version, time.UnixMicro(version).UTC()
		record.State, record.Reason = oauth.StateReauthorize, oauth.Reason(v["reason"].(string))
	}
	return record, nil
}

// probe returns the version of a row.
func (s *Store) probe(ctx context.Context, op string, key oauth.Key) (version int64, err error) {
	if key.Validate() != nil {
		return 0, oauth.ErrNoRecord
	}
	err = s.retry(ctx, op, s.sql.probe, func() error {
		return s.one(ctx, s.sql.probe, place(key), func(row scanner) error { return row.Scan(&version) })
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = oauth.ErrNoRecord
	}
	return version, err
}

// conflict is why a row was not there to be written.
func (s *Store) conflict(ctx context.Context, op string, key oauth.Key) error {
	if _, err := s.probe(ctx, op, key); err != nil {
		return err
	}
	return oauth.ErrConflict
}

// held returns the columns that a lease is known by.
func held(lease oauth.Lease) values {
	v := place(lease.Key)
	v["version"], v["owner"] = lease.Version, lease.Owner
	return v
}

func isOwner(owner string) bool {
	return owner != "" && len(owner) <= maxOwnerBytes && utf8.ValidString(owner) && !strings.Contains(owner, "\x00")
}
