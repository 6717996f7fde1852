// Package pgstore stores the requests of a rate limit in PostgreSQL, for a [ratelimit.Fleet].
// It uses one small table and one round trip per request.
//
//	pool, err := pgxpool.New(ctx, address)
//	store, err := pgstore.New(pool)
//	err = store.Migrate(ctx)
//	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: store, Name: "us"})
//
// Each process uses one connection at a time. The store keeps no state in the session. Behind
// PgBouncer in transaction mode (tested with 1.18), set pgx.QueryExecModeExec on the pool.
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
	"github.com/dispensary-go/dispensary/internal/sqldb"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Store is a [ratelimit.Store]. It is safe for concurrent use. Create it with [New].
type Store struct {
	pool  *pgxpool.Pool
	conns sqldb.Pool[*pgxpool.Conn]
}

var _ ratelimit.Store = (*Store)(nil)

// New returns a store in the table dispensary_ratelimit, in the search path of the
// connections. It sends no query. If pool is nil, it returns an [*api.ArgumentError].
func New(pool *pgxpool.Pool) (*Store, error) {
	if pool == nil {
		return nil, &api.ArgumentError{Field: "pgstore.New pool", Reason: "is nil"}
	}
	return &Store{pool, sqldb.Pool[*pgxpool.Conn]{
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

// Schema is the SQL of the table, as [Store.Migrate] runs it. For each name, row 0 stores the
// end of the pause. The other rows store the latest starts, up to the limit, numbered without
// gaps. The table is unlogged, so a crash of the database deletes its rows.
const Schema = `CREATE TABLE IF NOT EXISTS dispensary_ratelimit_schema (
	id      integer PRIMARY KEY,
	version integer NOT NULL,
	oldest  integer NOT NULL
);
CREATE UNLOGGED TABLE IF NOT EXISTS dispensary_ratelimit (
	name   text COLLATE "C" NOT NULL,
	number bigint NOT NULL,
	at     timestamptz NOT NULL,
	PRIMARY KEY (name, number)
);
INSERT INTO dispensary_ratelimit_schema (id, version, oldest) VALUES (1, 1, 1) ON CONFLICT (id) DO UPDATE SET version = excluded.version, oldest = excluded.oldest`

// Migrate creates or migrates the table. If it has the version of this release, Migrate only
// reads, so a role without the right to create tables can call it. If another program created
// the table, or a newer release no longer admits this one, Migrate returns a [*api.SchemaError]
// and changes nothing.
func (s *Store) Migrate(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.pool)
	err := sqldb.Schema{Dialect: sqldb.PostgreSQL, Script: Schema, Migrate: "Store.Migrate"}.Create(ctx, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}

// Statements of a call for the name $1. They always run in READ COMMITTED: under a stricter
// default of the database, they would read the rows from before they had the lock.
const (
	beginSQL = `BEGIN ISOLATION LEVEL READ COMMITTED`
	lockSQL  = `SELECT pg_advisory_xact_lock(1298752311, hashtext($1))`

	// pastSQL records $2 starts.
	pastSQL = `INSERT INTO dispensary_ratelimit (name, number, at)
		SELECT $1, last.number + i, clock_timestamp() FROM generate_series(1, $2::int) AS i,
			(SELECT coalesce(max(number), 0) AS number FROM dispensary_ratelimit WHERE name = $1) AS last`

	// takeSQL records a start unless a window of $2 starts in $3 microseconds is full, because
	// the $2th newest start is younger. It returns the time until no window is full. A start
	// more than a window in the future comes from a wrong clock and does not count.
	takeSQL = `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
		last AS MATERIALIZED (SELECT coalesce(max(number), 0) AS number FROM dispensary_ratelimit WHERE name = $1),
		windows AS (SELECT starts, per * interval '1 microsecond' AS per FROM unnest($2::bigint[], $3::bigint[]) AS w(starts, per)),
		full_windows AS MATERIALIZED (SELECT s.at + w.per - clock.now AS rest FROM clock, last, windows w
			JOIN dispensary_ratelimit s ON s.name = $1 AND s.number > 0
			WHERE s.number = last.number - w.starts + 1 AND s.at > clock.now - w.per AND s.at <= clock.now + w.per),
		taken AS (INSERT INTO dispensary_ratelimit (name, number, at)
			SELECT $1, last.number + 1, clock.now FROM clock, last WHERE NOT EXISTS (SELECT FROM full_windows))
		SELECT coalesce((extract(epoch FROM max(rest)) * 1000000)::bigint, 0) FROM full_windows`

	// trimSQL deletes all but the newest $2 starts, and at most $3 of the older ones. Without
	// this bound it would read all dead rows since the last vacuum.
	trimSQL = `WITH last AS MATERIALIZED (SELECT coalesce(max(number), 0) AS number FROM dispensary_ratelimit WHERE name = $1)
		DELETE FROM dispensary_ratelimit s USING last WHERE s.name = $1 AND s.number > 0
			AND s.number <= last.number - $2::bigint AND s.number > last.number - $2::bigint - $3::bigint`

	pausedSQL = `SELECT coalesce((extract(epoch FROM max(at) - clock_timestamp()) * 1000000)::bigint, 0)
		FROM dispensary_ratelimit WHERE name = $1 AND number = 0`

	pauseSQL = `INSERT INTO dispensary_ratelimit AS s (name, number, at)
		VALUES ($1, 0, clock_timestamp() + $2::bigint * interval '1 microsecond')
		ON CONFLICT (name, number) DO UPDATE SET at = greatest(s.at, excluded.at)`
)

// Take implements [ratelimit.Store]. It sends its statements as one batch in one transaction.
func (s *Store) Take(ctx context.Context, name string, past, want int, windows ...ratelimit.Window) (taken ratelimit.Taken, err error) {
	err = s.conns.Do(ctx, func(conn *pgxpool.Conn) (err error) {
		taken, err = take(ctx, conn, name, past, want, windows)
		return err
	})
	if err != nil {
		return ratelimit.Taken{}, fmt.Errorf("pgstore: %w", err)
	}
	return taken, nil
}

func take(ctx context.Context, conn *pgxpool.Conn, name string, past, want int, windows []ratelimit.Window) (taken ratelimit.Taken, err error) {
	starts, pers := make([]int64, len(windows)), make([]int64, len(windows))
	for i, w := range windows {
		starts[i], pers[i] = int64(w.Starts), w.Per.Microseconds()
	}
	batch := &pgx.Batch{}
	batch.Queue(beginSQL)
	batch.Queue(lockSQL, name)
	if past > 0 {
		batch.Queue(pastSQL, name, past)
	}
	for range want {
		batch.Queue(takeSQL, name, starts, pers).QueryRow(func(row pgx.Row) error {
			var rest int64
			if err := row.Scan(&rest); err != nil {
				return err
			}
			if taken.Wait = time.Duration(rest) * time.Microsecond; rest == 0 {
				taken.Starts++
			}
			return nil
		})
	}
	batch.Queue(trimSQL, name, starts[0], past+want+10)
	batch.Queue(pausedSQL, name).QueryRow(func(row pgx.Row) error {
		var rest int64
		err := row.Scan(&rest)
		taken.Pause = time.Duration(max(0, rest)) * time.Microsecond
		return err
	})
	batch.Queue(`COMMIT`)
	return taken, conn.SendBatch(ctx, batch).Close()
}

// Pause implements [ratelimit.Store].
func (s *Store) Pause(ctx context.Context, name string, d time.Duration) error {
	err := s.conns.Do(ctx, func(conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(beginSQL)
		batch.Queue(pauseSQL, name, d.Microseconds())
		batch.Queue(`COMMIT`)
		return conn.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	return nil
}
