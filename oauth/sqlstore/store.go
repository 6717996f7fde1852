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
	"github.com/dispensary-go/dispensary/internal/sqlschema"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

// store is a [tokenstore.Store] in the tables of [Schema]. It is always wrapped by
// [tokenstore.Sealed].
type store struct {
	pool    pool
	dialect dialect
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

var _ tokenstore.Store = (*store)(nil)

// Open returns a store in db, which stays the caller's to close. It detects the database, creates
// missing tables, and encrypts tokens with aead, such as a [seal.KeyRing]: see
// [tokenstore.Sealed]. Use one store for a database, and share it.
//
// If no table is missing, Open only reads, so a role without the right to create tables can call
// it at every start. Replicas may call it at the same time.
//
// Errors: an [*api.ArgumentError] if db or aead is nil or the database is none that the package
// supports; a [*api.SchemaError] if a table lacks a column, because another program or release
// created it; those of the database.
func Open(ctx context.Context, db *sql.DB, aead seal.AEAD) (tokenstore.Store, error) {
	return open(ctx, db, aead, func(schema sqlschema.Schema) error { return schema.Create(ctx, db) })
}

// OpenExisting is [Open] for tables that another tool has created: it fails with a
// [*api.SchemaError] if a table or a column is missing, and changes nothing.
func OpenExisting(ctx context.Context, db *sql.DB, aead seal.AEAD) (tokenstore.Store, error) {
	return open(ctx, db, aead, func(schema sqlschema.Schema) error { return schema.Check(ctx, db) })
}

func open(ctx context.Context, db *sql.DB, aead seal.AEAD, prepare func(sqlschema.Schema) error) (tokenstore.Store, error) {
	if db == nil || aead == nil {
		return nil, &api.ArgumentError{Field: "sqlstore.Open", Reason: "needs a database and an AEAD"}
	}
	d, err := detect(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := prepare(d.schema()); err != nil {
		return nil, failed(ctx, "prepare the tables", err)
	}
	return tokenstore.Sealed(newStore(db, d), aead)
}

func newStore(db *sql.DB, d dialect) *store {
	s := &store{pool: failover.SQL(db), dialect: d, sql: newStatements(d), flows: newFlowStatements(d)}
	if d == sqlite {
		s.pool, s.writing = sqlitefile.NewPool(db), make(chan struct{}, 1)
	}
	return s
}

// Load implements [tokenstore.Store].
func (s *store) Load(ctx context.Context, key tokenstore.Key) (tokenstore.Record, error) {
	return s.row(ctx, "load", key, s.sql.load, keyValues(key))
}

// Save implements [tokenstore.Store].
func (s *store) Save(ctx context.Context, key tokenstore.Key, token oauth.Token) (tokenstore.Record, error) {
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
func (s *store) SaveVersion(ctx context.Context, key tokenstore.Key, version int64, token oauth.Token) (tokenstore.Record, error) {
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
func (s *store) DeleteVersion(ctx context.Context, key tokenstore.Key, version int64) error {
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
func (s *store) CheckWrite(ctx context.Context) error {
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
func (s *store) accept(ctx context.Context, key tokenstore.Key, token oauth.Token) (values, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case key.ValidateToken(token) != nil:
		return nil, key.ValidateToken(token)
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
func (s *store) row(ctx context.Context, op string, key tokenstore.Key, query statement, v values) (record tokenstore.Record, err error) {
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
func (s *store) write(ctx context.Context, op string, query statement, v values) (version int64, err error) {
	err = s.retry(ctx, op, query, func(conn *sql.Conn) error {
		if s.dialect != mySQL {
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
func (s *store) change(ctx context.Context, op string, key tokenstore.Key, query statement, v values) (changed int64, err error) {
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
func (s *store) one(ctx context.Context, conn *sql.Conn, query statement, v values, read func(scanner) error) error {
	none := error(sql.ErrNoRows)
	err := s.each(ctx, conn, query, v, func(row scanner) error {
		none = nil
		return read(row)
	})
	return cmp.Or(err, none)
}

// each reads all rows that a statement returns.
func (s *store) each(ctx context.Context, q rowser, query statement, v values, read func(scanner) error) (err error) {
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
func (s *store) retry(ctx context.Context, op string, query statement, run func(*sql.Conn) error) error {
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
func (s *store) probe(ctx context.Context, op string, key tokenstore.Key) (version int64, err error) {
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
func (s *store) conflict(ctx context.Context, op string, key tokenstore.Key) error {
	if _, err := s.probe(ctx, op, key); err != nil {
		return err
	}
	return tokenstore.ErrConflict
}

// String says what the store is and nothing of what it holds.
func (s *store) String() string {
	return "sqlstore.Store{" + string(s.dialect) + "}"
}

// Format prints [Store.String] for every verb.
func (s *store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
