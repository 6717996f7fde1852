// Package mutant makes deliberate mistakes between the packages of this project and a database
// driver. Tests use it to prove that they find such mistakes.
package mutant

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/ngrok/sqlmw"
)

// Mutant is one mistake.
type Mutant struct {
	// Name describes the mistake.
	Name string

	// Rewrite returns the statement to run instead of its argument. Nil changes no statement.
	Rewrite func(string) string

	// Late delays each prepared COMMIT until the next statement, but reports it as done
	// immediately.
	Late bool

	applied atomic.Int64
	mu      sync.Mutex
	late    func() error
}

// Applied returns the number of times that the mistake was made.
func (m *Mutant) Applied() int { return int(m.applied.Load()) }

// Open opens a database like [sql.Open], with the mistake in all connections.
func (m *Mutant) Open(driverName, dsn string) (*sql.DB, error) {
	plain, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	name := driverName + rand.Text()
	sql.Register(name, sqlmw.Driver(plain.Driver(), &interceptor{mutant: m}))
	db, err := sql.Open(name, dsn)
	return db, errors.Join(err, plain.Close())
}

// interceptor intercepts the calls between database/sql and a driver.
type interceptor struct {
	sqlmw.NullInterceptor
	mutant *Mutant
}

func (m *Mutant) mutate(query string) string {
	if m.Rewrite == nil {
		return query
	}
	instead := m.Rewrite(query)
	if instead != query {
		m.applied.Add(1)
	}
	return instead
}

// ConnPrepareContext implements [sqlmw.Interceptor], like the methods below. It prepares the
// rewritten statement.
func (i *interceptor) ConnPrepareContext(ctx context.Context, conn driver.ConnPrepareContext, query string) (context.Context, driver.Stmt, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	stmt, err := conn.PrepareContext(ctx, i.mutant.mutate(query))
	return ctx, stmt, err
}

// ConnExecContext runs an unprepared statement.
func (i *interceptor) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := i.mutant.catchUp(); err != nil {
		return nil, err
	}
	return conn.ExecContext(ctx, i.mutant.mutate(query), args)
}

// ConnQueryContext runs an unprepared query.
func (i *interceptor) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	rows, err := conn.QueryContext(ctx, i.mutant.mutate(query), args)
	return ctx, rows, err
}

// StmtExecContext runs a prepared statement.
func (i *interceptor) StmtExecContext(ctx context.Context, stmt driver.StmtExecContext, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := i.mutant.catchUp(); err != nil {
		return nil, err
	}
	if i.mutant.Late && query == "COMMIT" {
		i.mutant.applied.Add(1)
		i.mutant.mu.Lock()
		defer i.mutant.mu.Unlock()
		i.mutant.late = func() error {
			_, err := stmt.ExecContext(context.WithoutCancel(ctx), args)
			return err
		}
		return driver.RowsAffected(0), nil
	}
	return stmt.ExecContext(ctx, args)
}

// StmtQueryContext runs a prepared query.
func (i *interceptor) StmtQueryContext(ctx context.Context, stmt driver.StmtQueryContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	rows, err := stmt.QueryContext(ctx, args)
	return ctx, rows, err
}

// StmtClose closes a prepared statement. It runs a delayed commit first, because the commit may
// need the statement.
func (i *interceptor) StmtClose(_ context.Context, stmt driver.Stmt) error {
	return errors.Join(i.mutant.catchUp(), stmt.Close())
}

// catchUp runs the delayed commit, if there is one.
func (m *Mutant) catchUp() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.late == nil {
		return nil
	}
	late := m.late
	m.late = nil
	return late()
}

// Conn returns a PostgreSQL connection with the mistake, for drivers outside database/sql. It
// does not change the messages from the server.
func (m *Mutant) Conn(plain net.Conn) net.Conn { return &conn{Conn: plain, mutant: m} }

// conn rewrites statements in the messages to the server.
type conn struct {
	net.Conn
	mutant *Mutant
	begun  bool   // the first message was sent; it has no type byte
	rest   []byte // incomplete message
}

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	var out []byte
	for c.rest = append(c.rest, p...); ; {
		size := c.size()
		if size == 0 || size > len(c.rest) {
			break
		}
		out = append(out, c.rewrite(c.rest[:size])...)
		c.begun, c.rest = true, c.rest[size:]
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// header returns the number of bytes before the length of the next message.
func (c *conn) header() int {
	if c.begun {
		return 1
	}
	return 0
}

// size returns the size of the next message in bytes, or 0 if its length is not known yet.
func (c *conn) size() int {
	from := c.header()
	if len(c.rest) < from+4 {
		return 0
	}
	return from + int(binary.BigEndian.Uint32(c.rest[from:]))
}

// rewrite returns the message to send instead of message. In a parse message, the statement
// follows its name. In a query message, as for a schema, it comes first.
func (c *conn) rewrite(message []byte) []byte {
	const parse, query = 'P', 'Q'
	if !c.begun || message[0] != parse && message[0] != query {
		return message
	}
	parts := bytes.Split(message[5:], []byte{0})
	statement := &parts[0]
	if message[0] == parse {
		statement = &parts[1]
	}
	*statement = []byte(c.mutant.mutate(string(*statement)))
	body := bytes.Join(parts, []byte{0})
	return append(binary.BigEndian.AppendUint32([]byte{message[0]}, uint32(len(body)+4)), body...)
}
