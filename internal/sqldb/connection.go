// Package sqldb contains what the stores on SQL share: a [Schema] with a version, a [Pool] that leaves
// servers that reject writes, and [Retry] for statements that lost to concurrent ones.
//
// The stores are separate modules that may have another version than this package, so its exported
// names must not change.
package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/internal/jitter"
)

// A statement that lost to a concurrent one is repeated until the caller's ctx ends, for at
// most Patience. Each wait lasts at most longestWait.
const (
	Patience    = time.Minute
	longestWait = 32 * time.Millisecond
)

// IsContention reports whether the database rejected a statement because of concurrent ones and
// executed no part of it: a deadlock, a serialization failure if the connection's isolation level
// is stricter than necessary, the end of a lock_timeout, or a busy SQLite file. The drivers are not
// imported, so IsContention matches the methods of their errors or, without such methods, the error
// text.
func IsContention(err error) bool {
	var state interface{ SQLState() string } // pgx, pq
	if errors.As(err, &state) {
		return state.SQLState() == "40001" || state.SQLState() == "40P01" || state.SQLState() == "55P03"
	}
	var code interface{ Code() int } // modernc.org/sqlite
	if errors.As(err, &code) {
		const busy, locked = 5, 6
		return code.Code()&0xff == busy || code.Code()&0xff == locked
	}
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "Error 1213") || // go-sql-driver/mysql: deadlock
		strings.Contains(text, "Error 1020") || // MariaDB 11.6 and later: the row has changed since the snapshot
		strings.Contains(text, "database is locked") // mattn/go-sqlite3
}

// Retry calls run, and calls it again if [IsContention] reports true for its error. It returns the
// error of the last call.
func Retry(ctx context.Context, run func() error) error {
	for turn := new(Turns); ; {
		err := run()
		if err == nil || !IsContention(err) || !turn.Next(ctx) {
			return err
		}
	}
}

// Turns counts the attempts of one statement and waits between them.
type Turns struct {
	Tries int // so far
	until time.Time
}

// Next waits a random time, longer after each attempt, and reports whether the statement may
// run again. It returns false once Patience has passed or ctx has ended.
func (t *Turns) Next(ctx context.Context) bool {
	now := time.Now()
	switch {
	case t.Tries == 0:
		t.until = now.Add(Patience)
	case now.After(t.until):
		return false
	}
	t.Tries++
	timer := time.NewTimer(jitter.Backoff(t.Tries, time.Millisecond, longestWait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stale reports whether err means that the connection must be replaced and that the database
// has not executed the statement:
//
//   - PostgreSQL: the server is read-only (25006), shut the connection down (57P01), or is
//     starting up or shutting down (57P03). It reports 0A000 for an unlogged table of a
//     read-only replica, and for a prepared statement whose table has changed since.
//   - MySQL and MariaDB: the server or the transaction is read-only (1290, 1836, 1792).
//   - Any driver: [driver.ErrBadConn].
//
// Stale returns false for a crash of the server (57P02), because the statement may have been
// committed. Drivers close that connection themselves. The drivers are not imported, so Stale
// matches methods and texts of their errors.
func Stale(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, driver.ErrBadConn) {
		return true
	}
	var state interface{ SQLState() string } // pgx, pq
	if errors.As(err, &state) {
		switch state.SQLState() {
		case "25006", "57P01", "57P03", "0A000":
			return true
		}
		return false
	}
	text := err.Error() // go-sql-driver/mysql
	return strings.Contains(text, "Error 1290") && strings.Contains(text, "read-only") ||
		strings.Contains(text, "Error 1836") || strings.Contains(text, "Error 1792")
}

// Pool is a pool of connections of type C to one database.
//
// After a failover, a pool can keep connections to a server that has become a read-only
// replica. Such a connection responds to every statement, so the pool never drops it, and
// every write on it fails until the process restarts. [Pool.Do] closes such a connection and
// tries another one.
type Pool[C any] struct {
	// Acquire removes a connection from the pool, or opens one.
	Acquire func(context.Context) (C, error)

	// Release returns a connection to the pool.
	Release func(C)

	// Discard closes a connection instead of returning it.
	Discard func(C)

	// Idle returns the number of idle connections.
	Idle func() int
}

// Do calls run with a connection of the pool. If the error of run is stale, Do closes the
// connection and calls run again with another one. It does so for each connection that was
// idle at the first failure and then once with a new connection, and returns the last error.
// While the server rejects all writes, a call therefore opens at most one or two connections.
func (p Pool[C]) Do(ctx context.Context, run func(C) error) error {
	err := p.once(ctx, run)
	if !Stale(err) {
		return err
	}
	for tries := p.Idle() + 1; tries > 0 && Stale(err) && ctx.Err() == nil; tries-- {
		err = p.once(ctx, run)
	}
	return err
}

// once calls run with one connection and closes it if the error of run is stale.
func (p Pool[C]) once(ctx context.Context, run func(C) error) (err error) {
	conn, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if Stale(err) {
			p.Discard(conn)
		} else {
			p.Release(conn)
		}
	}()
	return run(conn)
}

// NewPool returns the pool of db.
func NewPool(db *sql.DB) Pool[*sql.Conn] {
	return Pool[*sql.Conn]{
		Acquire: db.Conn,
		Release: func(c *sql.Conn) { _ = c.Close() },
		Discard: func(c *sql.Conn) {
			_ = c.Raw(func(conn any) error {
				closePooled(conn)
				return driver.ErrBadConn
			})
		},
		Idle: func() int { return db.Stats().Idle },
	}
}

// closePooled closes the connection inside a stdlib.Conn of pgx, which would otherwise return
// it to its pgxpool.
func closePooled(conn any) {
	method := reflect.ValueOf(conn).MethodByName("Conn")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return
	}
	if inner, ok := reflect.TypeAssert[interface{ Close(context.Context) error }](method.Call(nil)[0]); ok {
		// With a canceled context, pgx closes the socket immediately and sends no message.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = inner.Close(ctx)
	}
}
