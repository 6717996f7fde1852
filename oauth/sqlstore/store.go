package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/contention"
	"github.com/dispensary-go/dispensary/internal/failover"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// Store is an [tokenstore.Store] in tables that [Migrate] made. Wrap it with
// [tokenstore.Sealed]. It is safe for concurrent use; make one for a database and
// share it.
type Store struct {
	pool    pool
	dialect Dialect
	config  Config
	sql     statements
	flows   flowStatements

	// writing serializes the writers of this process where the database is a file,
	// which has one writer at a time: waiting here is fair and costs nothing,
	// waiting in the driver is a matter of luck. Nil elsewhere.
	writing chan struct{}
}

// pool runs statements on one connection of a pool.
type pool interface {
	Do(ctx context.Context, run func(*sql.Conn) error) error
}

var _ tokenstore.Store = (*Store)(nil)

// New returns a store in db, which stays the caller's to close. It asks the
// database nothing. Errors are [api.ArgumentError].
func New(db *sql.DB, dialect Dialect, config Config) (*Store, error) {
	if db == nil {
		return nil, &api.ArgumentError{Field: "sqlstore.New db", Reason: "is nil"}
	}
	if err := dialect.validate(); err != nil {
		return nil, err
	}
	s := &Store{pool: failover.SQL(db), dialect: dialect, config: config, sql: newStatements(dialect), flows: newFlowStatements(dialect)}
	if dialect == SQLite {
		s.pool, s.writing = sqlitefile.NewPool(db), make(chan struct{}, 1)
	}
	return s, nil
}

// Load implements [tokenstore.Store].
func (s *Store) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	return s.row(ctx, "load", key, s.sql.load, keyValues(key))
}

// Save implements [tokenstore.Store].
func (s *Store) Save(ctx context.Context, key tokenstore.Key, token oauth.Token) (tokenstore.Record, error) {
	v, err := s.accept(ctx, key, token)
	if err != nil {
		return tokenstore.Record{}, err
	}
	version, err := s.write(ctx, "save", s.sql.save, v)
	if err != nil {
		return tokenstore.Record{}, err
	}
	return wrote(key, token, version), nil
}

// SaveVersion implements [tokenstore.Store].
func (s *Store) SaveVersion(ctx context.Context, key tokenstore.Key, version int64, token oauth.Token) (tokenstore.Record, error) {
	v, err := s.accept(ctx, key, token)
	if err != nil {
		return tokenstore.Record{}, err
	}
	query := s.sql.saveNew
	if version != 0 {
		v["version"], query = version, s.sql.saveVersion
	}
	written, err := s.write(ctx, "save", query, v)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tokenstore.Record{}, tokenstore.ErrConflict
	case err != nil:
		return tokenstore.Record{}, err
	}
	return wrote(key, token, written), nil
}

// DeleteVersion implements [tokenstore.Store].
func (s *Store) DeleteVersion(ctx context.Context, key tokenstore.Key, version int64) error {
	v := keyValues(key)
	v["version"] = version
	deleted, err := s.change(ctx, "delete", key, s.sql.forgetVersion, v)
	if err != nil || deleted > 0 {
		return err
	}
	if err := s.conflict(ctx, "delete", key); !errors.Is(err, tokenstore.ErrNoRecord) {
		return err
	}
	return nil
}

// CheckWrite implements [tokenstore.Store]. It writes one row of the table of tokens, which
// belongs to no environment and contains no token. All processes share that row.
func (s *Store) CheckWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := columnsOf(tokenstore.Key{User: "write check"}, oauth.Token{})
	if err != nil {
		return err
	}
	v["environment"] = "" // no other method reads a row without an environment
	_, err = s.write(ctx, "check write", s.sql.save, v)
	return err
}

// accept checks a token before it is written and returns its columns.
func (s *Store) accept(ctx context.Context, key tokenstore.Key, token oauth.Token) (values, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case key.ValidateToken(token) != nil:
		return nil, key.ValidateToken(token)
	case !s.config.InsecurePlaintext && !tokenstore.IsSealed(token):
		return nil, ErrPlaintext
	}
	return columnsOf(key, token)
}

// wrote is the record after a write of token.
func wrote(key tokenstore.Key, token oauth.Token, version int64) tokenstore.Record {
	return tokenstore.Record{
		Key: key, Token: token, Version: version, State: tokenstore.StateActive, UpdatedAt: time.UnixMicro(version).UTC(),
	}
}

// row runs a statement that returns the record of key, or none. A key that no
// store takes is not asked for: some databases compare it as equal to another,
// and some stumble over it.
func (s *Store) row(ctx context.Context, op string, key tokenstore.Key, query statement, v values) (record tokenstore.Record, err error) {
	if err := ctx.Err(); err != nil {
		return tokenstore.Record{}, err
	}
	if key.Validate() != nil {
		return tokenstore.Record{}, tokenstore.ErrNoRecord
	}
	err = s.retry(ctx, op, query, func(conn *sql.Conn) error {
		return s.one(ctx, conn, query, v, func(row scanner) (err error) {
			record, err = scan(row, key.Environment)
			return err
		})
	})
	if errors.Is(err, sql.ErrNoRows) {
		return tokenstore.Record{}, tokenstore.ErrNoRecord
	}
	if err != nil {
		return tokenstore.Record{}, err
	}
	return record, nil
}

// write runs a statement that writes a row and returns its new version. It
// returns [sql.ErrNoRows] if no row meets the statement's conditions. On MySQL the last
// inserted id shows that: the statements of [newStatements] set it to the version for each
// row that they find. The count of affected rows would not do. It depends on the connection
// (clientFoundRows): where only changed rows count, prolonging a lease on a clock that
// stands still counts none.
func (s *Store) write(ctx context.Context, op string, query statement, v values) (version int64, err error) {
	err = s.retry(ctx, op, query, func(conn *sql.Conn) error {
		if s.dialect != MySQL {
			return s.one(ctx, conn, query, v, func(row scanner) error { return row.Scan(&version) })
		}
		result, err := conn.ExecContext(ctx, query.text, query.args(v)...)
		if err != nil {
			return err
		}
		if version, err = result.LastInsertId(); err == nil && version == 0 {
			return sql.ErrNoRows
		}
		if query.ignores() && err == nil {
			var inserted int64
			if inserted, err = result.RowsAffected(); err == nil && inserted == 0 {
				return sql.ErrNoRows
			}
		}
		return err
	})
	return version, err
}

// change runs a statement that returns nothing, and returns how many rows it has
// changed: of an UPDATE that finds a row as it is to be, one or none.
func (s *Store) change(ctx context.Context, op string, key tokenstore.Key, query statement, v values) (changed int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if key.Validate() != nil {
		return 0, nil
	}
	err = s.retry(ctx, op, query, func(conn *sql.Conn) error {
		result, err := conn.ExecContext(ctx, query.text, query.args(v)...)
		if err != nil {
			return err
		}
		changed, err = result.RowsAffected()
		return err
	})
	return changed, err
}

// one reads the row that a statement returns, or [sql.ErrNoRows]. It reads on to
// the end: a write is durable when its statement is through, not when it returns
// its row.
func (s *Store) one(ctx context.Context, conn *sql.Conn, query statement, v values, read func(scanner) error) error {
	none := error(sql.ErrNoRows)
	err := s.each(ctx, conn, query, v, func(row scanner) error {
		none = nil
		return read(row)
	})
	return cmp.Or(err, none)
}

// each reads all rows that a statement returns.
func (s *Store) each(ctx context.Context, q rowser, query statement, v values, read func(scanner) error) (err error) {
	rows, err := q.QueryContext(ctx, query.text, query.args(v)...)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, rows.Close()) }()
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// rowser is a connection or a transaction.
type rowser interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// retry runs one statement on one connection. It runs the statement again if the database
// aborted it because of others, or if the server of the connection is read-only.
func (s *Store) retry(ctx context.Context, op string, query statement, run func(*sql.Conn) error) error {
	if s.writing != nil && query.writes() {
		select {
		case s.writing <- struct{}{}:
			defer func() { <-s.writing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := contention.Retry(ctx, func() error { return s.pool.Do(ctx, run) })
	if err != nil {
		return failed(ctx, op, err)
	}
	return nil
}

// failed names the operation. The end of the caller's ctx comes back from some
// drivers as another error.
func failed(ctx context.Context, op string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("sqlstore: %s: %w: %w", op, ended, err)
	}
	return fmt.Errorf("sqlstore: %s: %w", op, err)
}

// probe returns the version of a row.
func (s *Store) probe(ctx context.Context, op string, key tokenstore.Key) (version int64, err error) {
	if key.Validate() != nil {
		return 0, tokenstore.ErrNoRecord
	}
	err = s.retry(ctx, op, s.sql.probe, func(conn *sql.Conn) error {
		return s.one(ctx, conn, s.sql.probe, keyValues(key), func(row scanner) error { return row.Scan(&version) })
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = tokenstore.ErrNoRecord
	}
	return version, err
}

// conflict is why a row was not there to be written.
func (s *Store) conflict(ctx context.Context, op string, key tokenstore.Key) error {
	if _, err := s.probe(ctx, op, key); err != nil {
		return err
	}
	return tokenstore.ErrConflict
}

// String says what the store is and nothing of what it holds.
func (s *Store) String() string {
	return "sqlstore.Store{" + string(s.dialect) + "}"
}

// Format prints [Store.String] for every verb.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
