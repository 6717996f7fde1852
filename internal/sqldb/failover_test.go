package sqldb_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/sqldb"
)

// stateError is an error of a PostgreSQL driver.
type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

func TestStaleMatchesErrorsOfDrivers(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		stateError("25006"), stateError("57P01"), stateError("57P03"), stateError("0A000"), driver.ErrBadConn,
		errors.New("Error 1290 (HY000): The MySQL server is running with the --read-only option so it cannot execute this statement"),
		errors.New("Error 1836 (HY000): Running in read-only mode"),
		errors.New("Error 1792 (25006): Cannot execute statement in a READ ONLY transaction"),
	} {
		assert.True(t, sqldb.Stale(fmt.Errorf("store: %w", err)), err)
	}
	for _, err := range []error{
		nil, errors.New("read-only"), stateError("40001"), stateError("57P02"), context.Canceled, sql.ErrNoRows,
		errors.New("Error 1290 (HY000): The MySQL server is running with the --secure-file-priv option so it cannot execute this statement"),
		errors.New("Error 1062 (23000): Duplicate entry"),
	} {
		assert.False(t, sqldb.Stale(err), err)
	}
}

// server is a database driver. A connection stays read-only if the server was read-only when
// the connection was opened.
type server struct {
	mu       sync.Mutex
	readOnly bool
	opened   []*conn
	executed int
}

func (s *server) set(readOnly bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readOnly = readOnly
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &conn{server: s, readOnly: s.readOnly, inner: &innerConn{}}
	s.opened = append(s.opened, c)
	return c, nil
}

func (s *server) Driver() driver.Driver { return nil }

type conn struct {
	server           *server
	readOnly, closed bool
	inner            *innerConn
}

// innerConn is the connection inside a conn. Closing the conn returns it to another pool.
type innerConn struct{ closed bool }

func (c *innerConn) Close(context.Context) error {
	c.closed = true
	return nil
}

func (c *conn) Conn() *innerConn                    { return c.inner }
func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

func (c *conn) Close() error {
	c.closed = true
	return nil
}

func (c *conn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	if c.readOnly {
		return nil, stateError("25006")
	}
	c.server.executed++
	return driver.RowsAffected(1), nil
}

// newFixture returns a server and a pool with idle connections to it.
func newFixture(t *testing.T, readOnly bool, idle int) (*server, *sql.DB, sqldb.Pool[*sql.Conn]) {
	t.Helper()
	s := &server{readOnly: readOnly}
	db := sql.OpenDB(s)
	db.SetMaxIdleConns(10)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	var held []*sql.Conn
	for range idle {
		c, err := db.Conn(t.Context())
		require.NoError(t, err)
		held = append(held, c)
	}
	for _, c := range held {
		require.NoError(t, c.Close())
	}
	return s, db, sqldb.NewPool(db)
}

func write(t *testing.T) func(*sql.Conn) error {
	return func(c *sql.Conn) error {
		_, err := c.ExecContext(t.Context(), "INSERT")
		return err
	}
}

func TestDoReplacesReadOnlyConnections(t *testing.T) {
	t.Parallel()
	s, db, pool := newFixture(t, true, 5)
	s.set(false)
	require.NoError(t, pool.Do(t.Context(), write(t)))
	assert.Equal(t, 1, s.executed)
	require.Len(t, s.opened, 6)
	for _, c := range s.opened[:5] {
		assert.True(t, c.closed && c.inner.closed)
	}
	assert.Equal(t, 1, db.Stats().OpenConnections)
}

func TestDoKeepsWorkingConnections(t *testing.T) {
	t.Parallel()
	s, _, pool := newFixture(t, false, 1)
	for range 3 {
		require.NoError(t, pool.Do(t.Context(), write(t)))
	}
	conflict := errors.New("conflict")
	require.ErrorIs(t, pool.Do(t.Context(), func(*sql.Conn) error { return conflict }), conflict)
	assert.Len(t, s.opened, 1)
	assert.False(t, s.opened[0].closed)
}

func TestDoOpensFewConnectionsToReadOnlyServer(t *testing.T) {
	t.Parallel()
	s, db, pool := newFixture(t, true, 5)
	for n := range 4 {
		require.ErrorIs(t, pool.Do(t.Context(), write(t)), stateError("25006"))
		assert.LessOrEqual(t, len(s.opened), 5+2*(n+1))
	}
	assert.Zero(t, db.Stats().OpenConnections)
	s.set(false)
	require.NoError(t, pool.Do(t.Context(), write(t)))
}

func TestDoStopsWithContext(t *testing.T) {
	t.Parallel()
	_, _, pool := newFixture(t, true, 5)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := pool.Do(ctx, func(*sql.Conn) error {
		calls++
		cancel()
		return stateError("25006")
	})
	require.ErrorIs(t, err, stateError("25006"))
	assert.Equal(t, 1, calls)
}

func TestDoReleasesConnectionAfterPanic(t *testing.T) {
	t.Parallel()
	_, db, pool := newFixture(t, false, 1)
	assert.Panics(t, func() { _ = pool.Do(t.Context(), func(*sql.Conn) error { panic("canary") }) })
	assert.Zero(t, db.Stats().InUse)
}
