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
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/tokenjson"
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
	version, err := int64(0), sql.ErrNoRows
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
		return each(ctx, conn, query, v, func(row scanner) error {
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
		return each(ctx, conn, s.sql.clinics, v, func(row scanner) error {
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
		claims, err = scanClaims(ctx, conn, query, due.Environment, v)
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

func scanClaims(ctx context.Context, q rowser, query statement, environment api.Environment, v values) ([]claimed, error) {
	var claims []claimed
	err := each(ctx, q, query, v, func(row scanner) (err error) {
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
		claims, err = scanClaims(ctx, tx, s.sql.claimPick, environment, v)
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

// flowStatements is the SQL for authorization flows.
type flowStatements struct{ claim, read, end, free, expire statement }

// ofFlow selects one flow.
const ofFlow = ` WHERE environment = :environment AND flow = :flow`

// newFlowStatements compiles the SQL for authorization flows.
func newFlowStatements(d dialect) flowStatements {
	present := ` ON CONFLICT (environment, flow) DO NOTHING`
	if d == mySQL {
		present = ` ON DUPLICATE KEY UPDATE flow = flow` // INSERT IGNORE would hide other errors
	}
	sql := func(parts ...string) statement {
		return d.compile(strings.ReplaceAll(strings.Join(parts, ""), "{clock}", d.clock()))
	}
	return flowStatements{
		claim: sql(`INSERT INTO dispensary_oauth_flows (environment, flow, owner, claimed_until, result)
			VALUES (:environment, :flow, :owner, {clock} + :ttl, '')`, present),
		read:   sql(`SELECT owner, result, CASE WHEN claimed_until > {clock} THEN 1 ELSE 0 END FROM dispensary_oauth_flows`, ofFlow),
		end:    sql(`UPDATE dispensary_oauth_flows SET result = :result`, ofFlow, ` AND owner = :owner AND result = ''`),
		free:   sql(`DELETE FROM dispensary_oauth_flows`, ofFlow, ` AND owner = :owner AND result = ''`),
		expire: sql(`DELETE FROM dispensary_oauth_flows WHERE claimed_until < {clock} - :retention`),
	}
}

// maxClaims limits the attempts of ClaimFlow if other owners delete their claims.
const maxClaims = 3

// ClaimFlow implements [tokenstore.Store]. It also deletes expired flows.
func (s *store) ClaimFlow(ctx context.Context, claim tokenstore.FlowClaim, ttl time.Duration) (result string, err error) {
	if err := errors.Join(ctx.Err(), claim.Validate()); err != nil {
		return "", err
	}
	v := flowValues(claim)
	v["ttl"], v["retention"] = ttl.Microseconds(), defaults.FlowRetention.Microseconds()
	for range maxClaims {
		if err := s.exec(ctx, "claim a flow", s.flows.claim, v); err != nil {
			return "", err
		}
		var owner string
		var running int
		found := false
		err := s.retry(ctx, "read a flow", s.flows.read, func(conn *sql.Conn) error {
			return each(ctx, conn, s.flows.read, v, func(row scanner) error {
				found = true
				return row.Scan(&owner, &result, &running)
			})
		})
		switch {
		case err != nil:
			return "", err
		case !found: // its owner has deleted the claim in the meantime
			continue
		case result != "":
			return result, nil
		case owner == claim.Owner:
			// The claim is valid even if the deletion of old flows fails.
			_ = s.exec(ctx, "delete expired flows", s.flows.expire, v)
			return "", nil
		case running == 1:
			return "", tokenstore.ErrLeased
		}
		return "", tokenstore.ErrNoResult
	}
	return "", tokenstore.ErrLeased
}

// EndFlow implements [tokenstore.Store].
func (s *store) EndFlow(ctx context.Context, claim tokenstore.FlowClaim, result string) error {
	if err := errors.Join(ctx.Err(), claim.Validate()); err != nil {
		return err
	}
	v := flowValues(claim)
	if result == "" {
		return s.exec(ctx, "free a flow", s.flows.free, v)
	}
	v["result"] = result
	return s.exec(ctx, "end a flow", s.flows.end, v)
}

// exec runs a statement that returns no rows.
func (d *database) exec(ctx context.Context, op string, query statement, v values) error {
	return d.retry(ctx, op, query, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, query.text, query.args(v)...)
		return err
	})
}

func flowValues(claim tokenstore.FlowClaim) values {
	return values{"environment": claim.Environment.String(), "flow": claim.Flow, "owner": claim.Owner}
}
