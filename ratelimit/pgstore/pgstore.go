// Package pgstore is a [ratelimit.Store] in PostgreSQL: one small table, and one round trip for
// an exchange.
//
//	pool, err := pgxpool.New(ctx, address)
//	store, err := pgstore.New(pool)
//	err = store.Migrate(ctx)
//	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: store, Name: "us"})
//
// Nothing depends on the session: behind PgBouncer in transaction mode (1.24 is tested) set
// pgx.QueryExecModeExec on the pool.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/failover"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Store is a [ratelimit.Store]. It is safe for concurrent use. Get it from [New].
type Store struct {
	pool  *pgxpool.Pool
	conns failover.Pool[*pgxpool.Conn]
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store that uses the table dispensary_ratelimit in the search path of the
// connections. It asks for nothing. An error is an [*api.ArgumentError].
func New(pool *pgxpool.Pool) (*Store, error) {
	if pool == nil {
		return nil, &api.ArgumentError{Field: "pgstore.New pool", Reason: "is nil"}
	}
	return &Store{pool, failover.Pool[*pgxpool.Conn]{
		Acquire: pool.Acquire,
		Release: (*pgxpool.Conn).Release,
		Discard: func(c *pgxpool.Conn) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.Conn().Close(ctx) // the pool drops a closed connection
			c.Release()
		},
		Idle: func() int { return int(pool.Stat().IdleConns()) },
	}}, nil
}

// Schema is the SQL of the table, which [Store.Migrate] runs. It is unlogged: what a crash
// loses, processes leave again.
const Schema = `CREATE UNLOGGED TABLE IF NOT EXISTS dispensary_ratelimit (
	name    text COLLATE "C" NOT NULL,
	process text COLLATE "C" NOT NULL,
	record  bytea NOT NULL,
	at      timestamptz NOT NULL,
	PRIMARY KEY (name, process)
)`

// SchemaError reports a table of another program in place of the table of a [Store]. Column is its
// missing column.
type SchemaError = sqlschema.Error

// Migrate creates the table if it does not exist. If it exists, Migrate only reads, so a role
// without the right to create tables can call it. It fails with a [*SchemaError] and changes nothing if
// the table lacks a column.
func (s *Store) Migrate(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.pool)
	err := sqlschema.Schema{Dialect: sqlschema.PostgreSQL, Script: Schema}.Create(ctx, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

// lock is the first half of the key of the lock that one exchange of a name holds at a time.
const lock = 1_298_752_311

// Exchange implements [ratelimit.Store]. Its statements are one batch and one transaction: the
// first one that asks for something waits for the exchanges before it, and the others see what
// these stored. That takes READ COMMITTED, whatever the database has by default: a stricter
// transaction sees what was there before it waited.
func (s *Store) Exchange(ctx context.Context, name, process string, record []byte, keep time.Duration) (board ratelimit.Board, err error) {
	if record == nil {
		record = []byte{} // not NULL
	}
	err = s.conns.Do(ctx, func(conn *pgxpool.Conn) (err error) {
		board, err = exchange(ctx, conn, name, process, record, keep)
		return err
	})
	if err != nil {
		return ratelimit.Board{}, fmt.Errorf("pgstore: %w", err)
	}
	return board, nil
}

func exchange(ctx context.Context, conn *pgxpool.Conn, name, process string, record []byte, keep time.Duration) (board ratelimit.Board, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`BEGIN ISOLATION LEVEL READ COMMITTED`)
	batch.Queue(`SELECT pg_advisory_xact_lock($1, hashtext($2))`, int32(lock), name)
	batch.Queue(`INSERT INTO dispensary_ratelimit (name, process, record, at) VALUES ($1, $2, $3, clock_timestamp())
		ON CONFLICT (name, process) DO UPDATE SET record = excluded.record, at = excluded.at`, name, process, record)
	batch.Queue(`DELETE FROM dispensary_ratelimit WHERE name = $1 AND at < clock_timestamp() - $2::interval`, name, keep)
	batch.Queue(`SELECT process, record, at, clock_timestamp() FROM dispensary_ratelimit WHERE name = $1`, name)
	batch.Queue(`COMMIT`)
	results := conn.SendBatch(ctx, batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 4 {
		if _, err := results.Exec(); err != nil {
			return board, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return board, err
	}
	defer rows.Close()
	board.Records = map[string]ratelimit.Record{}
	for rows.Next() {
		var id string
		var r ratelimit.Record
		if err := rows.Scan(&id, &r.Data, &r.At, &board.Now); err != nil {
			return board, err
		}
		board.Records[id] = r
	}
	return board, rows.Err()
}
