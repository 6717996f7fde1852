package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
			return s.each(ctx, conn, s.flows.read, v, func(row scanner) error {
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
func (s *store) exec(ctx context.Context, op string, query statement, v values) error {
	return s.retry(ctx, op, query, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, query.text, query.args(v)...)
		return err
	})
}

func flowValues(claim tokenstore.FlowClaim) values {
	return values{"environment": claim.Environment.String(), "flow": claim.Flow, "owner": claim.Owner}
}
