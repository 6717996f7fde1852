package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// Request implements [catalogstore.Store].
func (s *Store) Request(ctx context.Context, at time.Time, ids ...string) error {
	for _, id := range ids {
		if err := catalogstore.CheckID(id); err != nil {
			return err
		}
	}
	return s.write(ctx, "request", func(conn *sql.Conn) error { return request(ctx, conn, s.sql.request, at, ids) })
}

func request(ctx context.Context, q querier, query string, at time.Time, ids []string) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	_, err := q.ExecContext(ctx, query, array(ids), micros(at))
	return err
}

// Requested implements [catalogstore.Store].
func (s *Store) Requested(ctx context.Context, limit int) ([]catalogstore.Request, error) {
	return read(ctx, s, "read requests", scanRequest, s.sql.requested, limit)
}

func scanRequest(rows *sql.Rows) (r catalogstore.Request, err error) {
	var at int64
	err = rows.Scan(&r.ProductID, &at)
	r.At = fromMicros(at)
	return r, err
}

// Drop implements [catalogstore.Store].
func (s *Store) Drop(ctx context.Context, r catalogstore.Request) error {
	if catalogstore.CheckID(r.ProductID) != nil {
		return ctx.Err()
	}
	return s.write(ctx, "drop a request", func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, s.sql.drop, r.ProductID, micros(r.At))
		return err
	})
}
